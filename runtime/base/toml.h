// toml++, the same way everywhere. Its classes differ with these settings under one name: two ways in one
// program are one definition too many, and the linker takes whichever comes first.
#pragma once
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
