#pragma once

#include "quire/token.h"  // IWYU pragma: export
