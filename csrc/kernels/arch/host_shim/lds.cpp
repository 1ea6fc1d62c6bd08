#include "lds.h"

#include <cstring>
#include <new>

#include "emulation.h"
#include "fatal.h"

namespace hygon_backend::emulation {

void Lds::Free::operator()(void* memory) const { ::operator delete(memory, std::align_val_t(kLdsAlignment)); }

void* Lds::Find(const void* site, std::size_t bytes) {
  for (const Array& array : arrays_) {
    if (array.site == site) {
      return array.memory.get();
    }
  }
  used_bytes_ += (bytes + kLdsAlignment - 1) / kLdsAlignment * kLdsAlignment;
  if (used_bytes_ > kLdsBytes) {
    Die("the block needs %zu bytes of LDS, and there are %zu", used_bytes_, kLdsBytes);
  }
  std::unique_ptr<void, Free> memory(::operator new(bytes, std::align_val_t(kLdsAlignment)));
  std::memset(memory.get(), kPoisonByte, bytes);
  arrays_.push_back({site, std::move(memory)});
  return arrays_.back().memory.get();
}

void Lds::Clear() {
  arrays_.clear();
  used_bytes_ = 0;
}

}  // namespace hygon_backend::emulation
