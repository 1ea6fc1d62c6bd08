#include <cstdio>

#include "wave_probe.h"

int main() { std::printf("%d\n", hygon_backend::ProbeWaveWidth()); }
