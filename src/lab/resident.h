#pragma once

namespace quire::lab {

// What the operating system counts as this process's own, in bytes; 0 where it does not say.
double resident_bytes();

}  // namespace quire::lab
