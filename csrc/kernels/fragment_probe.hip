// One wave multiplies tiles whose products say where they come from:
//   case 0            rows hold their number:    element (r, c) of the product is r + 1
//   case 1            columns hold theirs:       c + 1
//   case 2 + k        rows hold a one at k, columns hold k + 1 at every k: k + 1, if the unit pairs
//                     contraction element k of the rows with that of the columns
// Operands are filled in each order that a unit here takes them in. In a wrong order at least one case
// gives values that no single row, column or element explains.
#include <hip/hip_runtime.h>

#include <array>
#include <cstddef>
#include <memory>
#include <stdexcept>

#include "detail/device_memory.h"
#include "detail/launch_check.h"
#include "detail/matrix.h"
#include "detail/words.h"
#include "fragment_probe.h"

namespace hygon_backend {
namespace {

constexpr int kCases = 2 + kTile;
constexpr int kLaneElements = kIndices * 4;
constexpr int kElements = kWaveWidth * kLaneElements;

struct ProbeResult {
  float products[kCases][kElements];
  // What the compiled unit says. The host cannot ask it: its pass of the compiler sees no card's unit.
  int assumed_rows[kElements];
  int assumed_columns[kElements];
  int assumed_step;
};

// The order in which lanes take operands, by the distance between a quarter and the next.
__device__ __forceinline__ int OperandIndex(int step, int lane, int j) {
  return step == 1 ? lane / kQuarters + j * kLaneIndices : lane % kTile;
}

__device__ __forceinline__ int OperandQuarter(int step, int lane) {
  return step == 1 ? lane % kQuarters : lane / kTile;
}

__device__ __forceinline__ float RowValue(int test_case, int row, int k) {
  if (test_case == 0) return k == 0 ? static_cast<float>(row + 1) : 0.0F;
  return k == (test_case == 1 ? 0 : test_case - 2) ? 1.0F : 0.0F;
}

__device__ __forceinline__ float ColumnValue(int test_case, int column, int k) {
  if (test_case == 0) return k == 0 ? 1.0F : 0.0F;
  if (test_case == 1) return k == 0 ? static_cast<float>(column + 1) : 0.0F;
  return static_cast<float>(k + 1);
}

template <class T>
__global__ void FragmentProbeKernel(ProbeResult* result, const int step) {
  const int lane = LaneIndex();
  const int quarter = OperandQuarter(step, lane);
  for (int test_case = 0; test_case < kCases; ++test_case) {
    Operand rows, columns;
#pragma unroll
    for (int j = 0; j < kIndices; ++j) {
      const int index = OperandIndex(step, lane, j);
#pragma unroll
      for (int word = 0; word < 2; ++word) {
        const int k = quarter * 4 + word * 2;
        rows.Word(j, word) = PackPair<T>(RowValue(test_case, index, k), RowValue(test_case, index, k + 1));
        columns.Word(j, word) =
            PackPair<T>(ColumnValue(test_case, index, k), ColumnValue(test_case, index, k + 1));
      }
    }
    Tile tile = {};
    MatrixUnit::template MultiplyAdd<T>(tile, rows, columns);
#pragma unroll
    for (int element = 0; element < kLaneElements; ++element) {
      result->products[test_case][lane * kLaneElements + element] = tile.values[element / 4][element % 4];
    }
  }
#pragma unroll
  for (int element = 0; element < kLaneElements; ++element) {
    const int slot = lane * kLaneElements + element;
    result->assumed_rows[slot] = MatrixUnit::Index(lane, element / 4);
    result->assumed_columns[slot] = MatrixUnit::ResultColumn(MatrixUnit::Quarter(lane), element % 4);
  }
  if (lane == 0) result->assumed_step = MatrixUnit::kQuarterStep;
}

using Places = std::vector<FragmentPlace>;

bool AreEqual(const Places& a, const Places& b) {
  for (std::size_t slot = 0; slot < a.size(); ++slot) {
    if (a[slot].row != b[slot].row || a[slot].column != b[slot].column) return false;
  }
  return true;
}

// The layouts written out from their documents once more, not taken from the units: an error there shows
// here. Rows first, then columns, of result element i of index j.
struct NamedLayout {
  const char* name;
  int wave_width;
  FragmentPlace (*place)(int lane, int j, int i);
};

constexpr int kHalfTile = kTile / 2;

const std::array<NamedLayout, 5> kLayouts = {{
    {"MFMA", 64, [](int lane, int, int i) { return FragmentPlace{lane % kTile, lane / kTile * 4 + i}; }},
    {"MMAC layout 1", 64,
     [](int lane, int, int i) { return FragmentPlace{lane % kTile, lane / kTile + i * 4}; }},
    {"MMAC layout 2", 64,
     [](int lane, int, int i) {
       return FragmentPlace{lane % kTile, i / 2 * kHalfTile + lane / kTile * 2 + i % 2};
     }},
    {"mma.sync", 32,
     [](int lane, int j, int i) {
       return FragmentPlace{lane / 4 + j * kHalfTile, i / 2 * kHalfTile + lane % 4 * 2 + i % 2};
     }},
    {"lanes without a matrix unit", 64,
     [](int lane, int, int i) { return FragmentPlace{lane / 4, lane % 4 * 4 + i}; }},
}};

std::string NameOf(const Places& places) {
  for (const NamedLayout& layout : kLayouts) {
    if (layout.wave_width != kWaveWidth) continue;
    Places expected(kElements);
    for (int slot = 0; slot < kElements; ++slot) {
      expected[slot] = layout.place(slot / kLaneElements, slot % kLaneElements / 4, slot % kLaneElements % 4);
    }
    if (AreEqual(places, expected)) return layout.name;
  }
  return "unknown";
}

// The number that a product of exact small integers encodes, or -1.
int Decode(float product) {
  for (int number = 0; number < kTile; ++number) {
    if (product == static_cast<float>(number + 1)) return number;
  }
  return -1;
}

// Reads off what the elements hold. Returns false where the products make no sense, so that the operands
// were not in the unit's order.
bool Recover(const ProbeResult& result, Places& places) {
  bool sensible = true;
  std::array<int, kTile * kTile> seen = {};
  for (int slot = 0; slot < kElements; ++slot) {
    places[slot] = {Decode(result.products[0][slot]), Decode(result.products[1][slot])};
    for (int k = 0; k < kTile; ++k) sensible &= Decode(result.products[2 + k][slot]) == k;
    if (places[slot].row < 0 || places[slot].column < 0) {
      sensible = false;
    } else {
      ++seen[places[slot].row * kTile + places[slot].column];
    }
  }
  for (const int count : seen) sensible &= count == 1;
  return sensible;
}

template <class T>
std::unique_ptr<ProbeResult> Run(int step) {
  const auto on_device = AllocateOnDevice<ProbeResult>();
  hipLaunchKernelGGL(FragmentProbeKernel<T>, dim3(1), dim3(kWaveWidth), 0, nullptr, on_device.get(), step);
  CheckHip(hipGetLastError(), "launching the fragment probe");
  auto result = std::make_unique<ProbeResult>();
  CheckHip(hipMemcpy(result.get(), on_device.get(), sizeof(ProbeResult), hipMemcpyDeviceToHost), "hipMemcpy");
  return result;
}

std::string Describe(const FragmentPlace& place) {
  if (place.row < 0 || place.column < 0) return "something that is no element of the product";
  return "row " + std::to_string(place.row) + ", column " + std::to_string(place.column);
}

std::string Mismatch(const FragmentReport& report, const Places& assumed) {
  std::string message = "the matrix unit holds its results as " + report.recovered +
                        ", but the kernels were compiled for " + report.assumed;
  for (int slot = 0; slot < kElements; ++slot) {
    if (!AreEqual({report.places[slot]}, {assumed[slot]})) {
      return message + ": element " + std::to_string(slot % kLaneElements) + " of lane " +
             std::to_string(slot / kLaneElements) + " is " + Describe(report.places[slot]) + " and not " +
             Describe(assumed[slot]);
    }
  }
  return message + ": it pairs contraction elements that belong apart";
}

template <class T>
FragmentReport Probe() {
  // Only a wave of 64 has lanes enough for a quarter every 16.
  constexpr int kSteps[] = {kWaveWidth == 64 ? kTile : 1, 1};
  const auto first = Run<T>(kSteps[0]);
  Places assumed(kElements);
  for (int slot = 0; slot < kElements; ++slot) {
    assumed[slot] = {first->assumed_rows[slot], first->assumed_columns[slot]};
  }
  FragmentReport report;
  report.wave_width = kWaveWidth;
  report.assumed = NameOf(assumed);
  report.places.resize(kElements);
  int step = kSteps[0];
  bool sensible = Recover(*first, report.places);
  if (!sensible) {
    step = kSteps[1];
    sensible = Recover(*Run<T>(step), report.places);
  }
  report.recovered = sensible ? NameOf(report.places) : "unknown";
  report.matches = sensible && step == first->assumed_step && AreEqual(report.places, assumed);
  report.message = report.matches ? "the matrix unit holds its results as " + report.assumed + ", as compiled"
                                  : Mismatch(report, assumed);
  return report;
}

}  // namespace

FragmentReport ProbeFragments(ElementType type) {
  if (type == ElementType::kFloat16) return Probe<Float16>();
  if (type == ElementType::kBFloat16) return Probe<BFloat16>();
  throw std::invalid_argument("the fragment probe multiplies half or bfloat16");
}

}  // namespace hygon_backend
