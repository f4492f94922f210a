// Which build of the hot loops is in use; every build gives the same results.
#pragma once

#include <string>
#include <vector>

namespace mm {

std::vector<std::string> instruction_sets(); // that this processor runs
std::string instruction_set();               // in use
bool use_instruction_set(const std::string &name);

} // namespace mm
