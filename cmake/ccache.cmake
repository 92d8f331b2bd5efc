# ccache when it is there: a session's or CI's second build is then minutes shorter.
find_program(SHUNT_CCACHE ccache)
if(SHUNT_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${SHUNT_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SHUNT_CCACHE})
endif()
