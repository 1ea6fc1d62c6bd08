// Lends the integers of a Python object to C++.
#ifndef HYGON_BACKEND_CSRC_BINDINGS_INT64_SPAN_H_
#define HYGON_BACKEND_CSRC_BINDINGS_INT64_SPAN_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "cache/errors.h"
#include "cache/token_span.h"

namespace hygon_backend {

// A contiguous buffer of 64-bit integers is used where it lies, for as long as this object lives; 32-bit ones
// and the integers of a list, a tuple or any other sequence are copied.
class LentInt64 {
 public:
  LentInt64(const char* argument, pybind11::handle object) {
    if (PyObject_CheckBuffer(object.ptr()) != 0) {
      FromBuffer(argument, object);
    } else {
      FromSequence(argument, object);
    }
  }
  LentInt64(const LentInt64&) = delete;
  LentInt64& operator=(const LentInt64&) = delete;
  ~LentInt64() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }

  cache::Int64Span span() const { return span_; }

 private:
  static constexpr const char* kAllowed =
      "must be a one-dimensional, contiguous buffer of 64-bit or 32-bit integers, or a sequence of integers";

  static cache::InvalidArgument Complain(const char* argument, const std::string& fault) {
    return cache::InvalidArgument(std::string(argument) + " " + fault + ", but " + kAllowed);
  }

  void FromBuffer(const char* argument, pybind11::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS) != 0) {
      view_.obj = nullptr;
      PyErr_Clear();
      throw Complain(argument, "is a buffer that is not contiguous");
    }
    const std::string format = view_.format == nullptr ? "B" : view_.format;
    if (view_.ndim != 1) throw Complain(argument, "has " + std::to_string(view_.ndim) + " dimensions");
    const bool is_signed = format == "l" || format == "q" || format == "i";
    const auto count = static_cast<std::size_t>(view_.shape[0]);
    if (is_signed && view_.itemsize == sizeof(std::int64_t)) {
      span_ = {static_cast<const std::int64_t*>(view_.buf), view_.shape[0]};
    } else if (is_signed && view_.itemsize == sizeof(std::int32_t)) {
      const auto* narrow = static_cast<const std::int32_t*>(view_.buf);
      Own(std::vector<std::int64_t>(narrow, narrow + count));
    } else {
      throw Complain(argument, "has elements of format '" + format + "'");
    }
  }

  void FromSequence(const char* argument, pybind11::handle object) {
    const auto fast = pybind11::reinterpret_steal<pybind11::object>(PySequence_Fast(object.ptr(), ""));
    if (!fast) {
      PyErr_Clear();
      throw Complain(argument, std::string("is of type ") + Py_TYPE(object.ptr())->tp_name);
    }
    const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(fast.ptr(), static_cast<Py_ssize_t>(i));
      values[i] = PyLong_Check(item) != 0 ? PyLong_AsLongLong(item) : FromIndex(item);
      if (values[i] == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw Complain(argument,
                       "has at position " + std::to_string(i) + " something else than a 64-bit integer");
      }
    }
    Own(std::move(values));
  }

  static std::int64_t FromIndex(PyObject* item) {
    const auto number = pybind11::reinterpret_steal<pybind11::object>(PyNumber_Index(item));
    return number ? PyLong_AsLongLong(number.ptr()) : -1;
  }

  void Own(std::vector<std::int64_t> values) {
    own_ = std::move(values);
    span_ = {own_.data(), static_cast<std::int64_t>(own_.size())};
  }

  Py_buffer view_{};
  std::vector<std::int64_t> own_;
  cache::Int64Span span_;
};

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_BINDINGS_INT64_SPAN_H_
