#include "core/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace quire {
namespace {

#if defined(__x86_64__)
// Clang's __builtin_cpu_supports does not know "f16c"; the bit is CPUID.1:ECX[29].
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1u << 29)) != 0;
}
#endif

}  // namespace

Isa best_isa() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return Isa::portable;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  return avx512 ? Isa::avx512 : Isa::avx2;
#else
  return Isa::portable;
#endif
}

bool multiplies_bf16() {
#if defined(__x86_64__)
  return best_isa() == Isa::avx512 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "?";
}

std::optional<Isa> isa_from_name(std::string_view text) {
  for (const Isa isa : kIsas) {
    if (name(isa) == text) return isa;
  }
  return std::nullopt;
}

}  // namespace quire
