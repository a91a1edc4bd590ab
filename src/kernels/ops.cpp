#include "kernels/ops.h"

#include "core/fail.h"

namespace quire {

Result<const Ops*> find_ops(std::string_view name) {
  if (name == "auto" || name.empty()) return &cpu_ops(best_isa());
  if (name == "ref") return &ref_ops();
  const bool bytes = name == byte_ops().name;
  const auto isa = bytes ? Isa::avx512 : isa_from_name(name);
  if (!isa) {
    return fail(Errc::invalid_argument, "kernels '{}' do not exist; expected auto, ref, portable, avx2, avx512 or vnni",
                name);
  }
  if (*isa > best_isa()) {
    return fail(Errc::unsupported, "this machine cannot run the {} kernels; its best are {}", name,
                quire::name(best_isa()));
  }
  return bytes ? &byte_ops() : &cpu_ops(*isa);
}

}  // namespace quire
