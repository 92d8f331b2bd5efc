# `cmake --install build --prefix P`, and packages (`cpack -G "DEB;TGZ" --config build/CPackConfig.cmake`). Everything is
# found relative to bin/shunt (tools/shunt/layout.cpp), so a tree may be moved anywhere. The libraries stay out of the
# loader's own folders: simgpu's libcuda.so.1 must never be picked up by chance.
install(TARGETS shunt_tool RUNTIME DESTINATION bin)
install(TARGETS shunt shunt_rt LIBRARY DESTINATION lib/shunt)
foreach(library simgpu_cuda simgpu_cudart simgpu_nvml simgpu_nccl simgpu_cupti)
  if(TARGET ${library})
    install(TARGETS ${library} LIBRARY DESTINATION lib/shunt/simgpu)
  endif()
endforeach()

# Completions and the manual page come out of the command itself.
set(pages ${CMAKE_BINARY_DIR}/share)
set(page_files)
foreach(page "bash:bash-completion/completions:shunt" "zsh:zsh/vendor-completions:_shunt" "fish:fish/vendor_completions.d:shunt.fish" "man:man/man1:shunt.1.gz")
  string(REPLACE ":" ";" parts ${page})
  list(GET parts 0 kind)
  list(GET parts 1 folder)
  list(GET parts 2 file)
  set(filter "")
  if(file MATCHES "gz$")
    set(filter "| gzip -9n")
  endif()
  add_custom_command(OUTPUT ${pages}/${folder}/${file} DEPENDS shunt_tool
    COMMAND sh -ec "mkdir -p ${pages}/${folder} && $<TARGET_FILE:shunt_tool> completion ${kind} ${filter} > ${pages}/${folder}/${file}"
    COMMENT "shunt completion ${kind}" VERBATIM)
  list(APPEND page_files ${pages}/${folder}/${file})
  install(FILES ${pages}/${folder}/${file} DESTINATION share/${folder})
endforeach()
add_custom_target(shunt_pages ALL DEPENDS ${page_files})

install(FILES README.md CHANGELOG.md DESTINATION share/doc/shunt)
install(FILES cmake/copyright DESTINATION share/doc/shunt)
install(DIRECTORY docs/ DESTINATION share/doc/shunt/docs FILES_MATCHING PATTERN "*.md" PATTERN "adr" EXCLUDE PATTERN "gpu" EXCLUDE)
if(EXISTS ${CMAKE_SOURCE_DIR}/scripts/cluster)
  install(DIRECTORY scripts/cluster/ DESTINATION share/shunt/cluster USE_SOURCE_PERMISSIONS)
endif()

set(CPACK_PACKAGE_NAME shunt)
set(CPACK_PACKAGE_VENDOR "the shunt authors")
set(CPACK_PACKAGE_CONTACT "the shunt authors <shunt@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "run unmodified CUDA and NCCL programs better on mixed GPUs")
set(CPACK_PACKAGE_DESCRIPTION "Sits between a CUDA program and the driver: chooses the device that fits, submits repeated launches
as CUDA graphs, overlaps communication with compute and survives out of memory, with unchanged results. Brings simgpu, a software
CUDA platform, for machines without a GPU.")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME shunt-${PROJECT_VERSION}-linux-x86_64)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# simgpu's libraries ask for 2.36; tests/package compares this line with what the binaries ask for.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36), libgcc-s1")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libunwind8")  # call sites in traces
include(CPack)
