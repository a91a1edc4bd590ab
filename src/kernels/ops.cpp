#include "kernels/ops.h"

#include "core/fail.h"

namespace quire {

const Ops& fastest_ops() {
  if (multiplies_bf16()) return bf16_ops();
  return best_isa() == Isa::avx512 ? byte_ops() : cpu_ops(best_isa());
}

Result<const Ops*> find_ops(std::string_view name) {
  if (name == "auto" || name.empty()) return &fastest_ops();
  if (name == "exact") return &cpu_ops(best_isa());
  if (name == "ref") return &ref_ops();
  const Ops* rounding = name == byte_ops().name ? &byte_ops() : name == bf16_ops().name ? &bf16_ops() : nullptr;
  const auto isa = rounding != nullptr ? Isa::avx512 : isa_from_name(name);
  if (!isa) {
    return fail(Errc::invalid_argument,
                "kernels '{}' do not exist; expected auto, exact, ref, portable, avx2, avx512, vnni or bf16", name);
  }
  if (*isa > best_isa() || (rounding == &bf16_ops() && !multiplies_bf16())) {
    return fail(Errc::unsupported, "this machine cannot run the {} kernels; its best are {}", name, fastest_ops().name);
  }
  return rounding != nullptr ? rounding : &cpu_ops(*isa);
}

}  // namespace quire
