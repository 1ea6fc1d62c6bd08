#include "fatal.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "emulation.h"

namespace hygon_backend::emulation {

void Die(const char* format, ...) {
  std::fprintf(stderr, "HIP emulation: ");
  if (current_thread != nullptr) {
    const dim3& block = current_thread->position->block_index;
    const dim3& thread = current_thread->index;
    std::fprintf(stderr, "block (%u, %u, %u), thread (%u, %u, %u), wave %d, lane %d: ", block.x, block.y,
                 block.z, thread.x, thread.y, thread.z, current_thread->wave, current_thread->lane);
  }
  std::va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "\n");
  std::abort();
}

}  // namespace hygon_backend::emulation
