// Prints what the fragment probe finds: `program half` or `program bfloat16`.
#include <cstdio>
#include <string_view>

#include "fragment_probe.h"

int main(int argc, char** argv) {
  using namespace hygon_backend;
  const bool half = argc == 2 && std::string_view(argv[1]) == "half";
  const FragmentReport report = ProbeFragments(half ? ElementType::kFloat16 : ElementType::kBFloat16);
  std::printf("%d\n%s\n%s\n%s\n%d\n", report.matches ? 1 : 0, report.assumed.c_str(),
              report.recovered.c_str(), report.message.c_str(), report.wave_width);
  for (const FragmentPlace& place : report.places) std::printf("%d,%d ", place.row, place.column);
  std::printf("\n");
}
