// Every experiment there is.
#pragma once

#include "lab/experiment.h"

namespace quire::lab {

extern const Experiment kSpeed, kEquality, kBreak, kMemory, kLatency, kFlops, kSharing, kCapacity, kQuant, kSinks,
    kLayers, kWindow, kEvict, kLayout;

}  // namespace quire::lab
