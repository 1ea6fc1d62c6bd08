// The frame of the test programs: `program CASE` runs one case, which prints what the test looks at.
#ifndef HYGON_BACKEND_TESTS_EMULATION_PROGRAMS_CASE_MAIN_H_
#define HYGON_BACKEND_TESTS_EMULATION_PROGRAMS_CASE_MAIN_H_

#include <hip/hip_runtime.h>

#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <string_view>
#include <vector>

struct Case {
  std::string_view name;
  void (*run)();
};

inline int RunCase(int argc, char** argv, std::initializer_list<Case> cases) {
  for (const Case& test_case : cases) {
    if (argc == 2 && test_case.name == argv[1]) {
      test_case.run();
      return 0;
    }
  }
  std::fprintf(stderr, "unknown case\n");
  return 2;
}

// Device memory that holds `count` values; poisoned at first.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    static_cast<void>(hipMalloc(&memory_, count * sizeof(T)));
  }
  ~DeviceArray() { static_cast<void>(hipFree(memory_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return memory_; }

  std::vector<T> ToHost() const {
    std::vector<T> values(count_);
    static_cast<void>(hipMemcpy(values.data(), memory_, count_ * sizeof(T), hipMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t count_;
  T* memory_ = nullptr;
};

// One line of numbers.
template <class T>
void Print(const std::vector<T>& values) {
  for (const T& value : values) {
    std::printf("%lld ", static_cast<long long>(value));
  }
  std::printf("\n");
}

template <class T>
void Print(const DeviceArray<T>& values) {
  Print(values.ToHost());
}

#endif  // HYGON_BACKEND_TESTS_EMULATION_PROGRAMS_CASE_MAIN_H_
