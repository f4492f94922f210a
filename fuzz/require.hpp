// What must hold whatever the input is; if it does not, that is a finding as a crash is.
#pragma once

#include <cstdio>
#include <cstdlib>

#define REQUIRE(condition)                                                                                             \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                               \
      std::abort();                                                                                                    \
    }                                                                                                                  \
  } while (false)
