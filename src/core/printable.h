#pragma once

namespace quire {

// Control characters in a stranger's text could drive the terminal it is shown on.
inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace quire
