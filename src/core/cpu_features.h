#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace quire {

// Instruction-set families that kernels are written for, weakest first.
enum class Isa { portable, avx2, avx512 };
inline constexpr std::array kIsas{Isa::portable, Isa::avx2, Isa::avx512};

Isa best_isa();          // of this machine
bool multiplies_bf16();  // whether it has AVX-512 with products of bf16
std::string_view name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

}  // namespace quire
