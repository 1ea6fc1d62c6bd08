#include "settings.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "fatal.h"

namespace hygon_backend::emulation {
namespace {

constexpr unsigned kMaxWorkers = 256;

bool ReadReversed() {
  const char* value = std::getenv("HYGON_EMULATION_ORDER");
  const std::string_view order = value == nullptr ? "forward" : value;
  if (order != "forward" && order != "reversed") {
    Die("HYGON_EMULATION_ORDER is \"%s\": it must be forward or reversed", value);
  }
  return order == "reversed";
}

unsigned ReadWorkers() {
  const char* value = std::getenv("HYGON_EMULATION_THREADS");
  if (value == nullptr) {
    return 1;
  }
  const std::string_view text = value;
  unsigned workers = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), workers);
  if (error != std::errc() || end != text.end() || workers < 1 || workers > kMaxWorkers) {
    Die("HYGON_EMULATION_THREADS is \"%s\": it must be a number from 1 to %u", value, kMaxWorkers);
  }
  return workers;
}

}  // namespace

const Settings& GetSettings() {
  static const Settings settings = {ReadReversed(), ReadWorkers()};
  return settings;
}

}  // namespace hygon_backend::emulation
