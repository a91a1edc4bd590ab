// Any bytes as the tables and the sizes that `quire plan` reads: what parses is planned with.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lab/hardware.h"
#include "lab/plan_cache.h"
#include "lab/plan_model.h"
#include "lab/table_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_size(text);
  if (const auto hardware = parse_hardware(text, "fuzz"); hardware.ok() && !hardware->empty()) {
    if (!find_hardware(*hardware, hardware->front().name).ok()) std::abort();
    (void)find_hardware(*hardware, text.substr(0, 20));
  }
  const auto models = parse_models(text, "fuzz");
  if (!models.ok()) return 0;
  for (const PlanModel& model : *models) {
    const auto demand = CacheDemand::create(model, {});
    if (demand.ok() && demand->bytes(1024, 2) < demand->bytes(1024, 1)) std::abort();
  }
  return 0;
}
