add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
# g++ 12 reports std::string concatenation at -O3 as overlapping memcpy (GCC bug 105651).
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
option(SHUNT_WERROR "warnings are errors" ON)
if(SHUNT_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
