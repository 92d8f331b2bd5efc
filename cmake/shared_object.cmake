# A shared object that lives inside somebody else's process: nothing exported but the version script's list, its own
# symbols bound to itself, libstdc++ static and hidden (libgcc_s stays shared so that exceptions unwind through one copy).
# shunt_shared_object(NAME VERSION_SCRIPT file SOURCES ... LIBS ...)
function(shunt_shared_object name)
  cmake_parse_arguments(ARG "" "VERSION_SCRIPT" "SOURCES;LIBS" ${ARGN})
  add_library(${name} SHARED ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} ${CMAKE_DL_LIBS})
  target_link_options(${name} PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL -Wl,-z,nodelete -Wl,-z,now
    -Wl,--version-script=${ARG_VERSION_SCRIPT} -static-libstdc++ -shared-libgcc)
  if(NOT SHUNT_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(${name} PROPERTIES LINK_DEPENDS ${ARG_VERSION_SCRIPT})
endfunction()
