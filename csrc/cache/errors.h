// What the cache refuses. Every refusal happens before anything was changed.
#ifndef HYGON_BACKEND_CSRC_CACHE_ERRORS_H_
#define HYGON_BACKEND_CSRC_CACHE_ERRORS_H_

#include <stdexcept>
#include <string>

namespace hygon_backend::cache {

// An argument that no state of the cache could accept, or that contradicts what the cache holds.
struct InvalidArgument : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A node, sequence or block that is not there, or is not there any more.
struct UnknownId : std::out_of_range {
  using std::out_of_range::out_of_range;
};

// A call that is legal in another state only, such as giving back a lock that was not taken.
struct IllegalState : std::logic_error {
  using std::logic_error::logic_error;
};

// Not enough free blocks.
struct OutOfBlocks : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The project's standard complaint about one argument.
template <typename Value>
InvalidArgument Reject(const std::string& argument, const Value& value, const std::string& allowed) {
  return InvalidArgument(argument + " is " + std::to_string(value) + ", but must be " + allowed);
}

}  // namespace hygon_backend::cache

#endif  // HYGON_BACKEND_CSRC_CACHE_ERRORS_H_
