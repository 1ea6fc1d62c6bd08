// Tile products as the emulated chip's matrix unit would give them; HYGON_EMULATED_UNIT picks the chip.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_MATRIX_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_MATRIX_H_

#include "arch/hcu/mmac_layout.h"
#include "detail/fma_unit.h"
#include "detail/fragment.h"
#include "detail/numeric.h"

// 0: MFMA, 1: MMAC layout 1, 2: MMAC layout 2, 3: no matrix unit.
#ifndef HYGON_EMULATED_UNIT
#define HYGON_EMULATED_UNIT 1
#endif

namespace hygon_backend::arch {

struct MfmaLayout : MmacOperands {
  static int ResultColumn(int quarter, int i) { return quarter * 4 + i; }
};

template <class Layout>
struct EmulatedUnit : Layout {
  struct LaneOperands {
    float rows[4];
    float columns[4];
  };

  template <class T>
  static void MultiplyAdd(Tile& tile, const Operand& rows, const Operand& columns) {
    LaneOperands mine;
    for (int k = 0; k < 4; ++k) {
      mine.rows[k] = ToFloat(T{static_cast<std::uint16_t>(rows.Word(0, k / 2) >> (k % 2 * 16))});
      mine.columns[k] = ToFloat(T{static_cast<std::uint16_t>(columns.Word(0, k / 2) >> (k % 2 * 16))});
    }
    const LaneOperands* all = emulation::Exchange(mine);
    const int row = Layout::Index(emulation::Lane(), 0);
    const int quarter = Layout::Quarter(emulation::Lane());
    for (int i = 0; i < 4; ++i) {
      const int column = Layout::ResultColumn(quarter, i);
      for (int source_quarter = 0; source_quarter < kQuarters; ++source_quarter) {
        const float* a = all[source_quarter * kTile + row].rows;
        const float* b = all[source_quarter * kTile + column].columns;
        for (int k = 0; k < 4; ++k) tile.values[0][i] += a[k] * b[k];
      }
    }
  }
};

template <int kUnit>
struct UnitOf {
  using Type = FmaUnit;
};
template <>
struct UnitOf<0> {
  using Type = EmulatedUnit<MfmaLayout>;
};
template <>
struct UnitOf<1> {
  using Type = EmulatedUnit<MmacLayout1>;
};
template <>
struct UnitOf<2> {
  using Type = EmulatedUnit<MmacLayout2>;
};

#ifdef HYGON_EMULATED_ASSUMED_UNIT
// A build for one chip that runs on another: what the fragment probe is there to notice.
struct MatrixUnit : UnitOf<HYGON_EMULATED_ASSUMED_UNIT>::Type {
  template <class T>
  static void MultiplyAdd(Tile& tile, const Operand& rows, const Operand& columns) {
    UnitOf<HYGON_EMULATED_UNIT>::Type::MultiplyAdd<T>(tile, rows, columns);
  }
};
#else
using MatrixUnit = UnitOf<HYGON_EMULATED_UNIT>::Type;
#endif

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_MATRIX_H_
