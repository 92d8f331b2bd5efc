# What the `shunt` command needs beside libc is linked into it, so that it runs wherever it is unpacked.
# shunt_fmt: fmt from its headers. shunt_sqlite: the archive where there is one.
find_package(fmt REQUIRED)
add_library(shunt_fmt INTERFACE)
target_link_libraries(shunt_fmt INTERFACE fmt::fmt-header-only)
find_library(SHUNT_SQLITE_LIBRARY NAMES libsqlite3.a sqlite3 REQUIRED)
add_library(shunt_sqlite INTERFACE)
target_link_libraries(shunt_sqlite INTERFACE ${SHUNT_SQLITE_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} m)
