# One module per folder of src/. A module sees the headers of the modules it depends on and of
# no others: each module's include directory holds a single link, named after the module, to
# its folder, so `#include "cache/pool.h"` compiles only where cache is a dependency.
#
#   quire_module(core SOURCES a.cpp b.cpp DEPENDS fmt::fmt MODULES kv TESTS a_test.cpp)

add_library(quire_options INTERFACE)
target_compile_options(quire_options INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror)
# clang-tidy has this check too, and spends a fifth of its time on it.
target_compile_options(quire_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wreserved-identifier>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(quire_options INTERFACE -Wno-restrict)  # GCC bug 105651: false alarms on std::string
endif()
target_compile_definitions(quire_options INTERFACE _FILE_OFFSET_BITS=64)
if(QUIRE_SANITIZE)
  target_compile_options(quire_options INTERFACE -fsanitize=${QUIRE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(quire_options INTERFACE -fsanitize=${QUIRE_SANITIZE})
  if(QUIRE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(quire_options INTERFACE -Wno-tsan)  # Boost.Asio has fences, which TSan does not see
  endif()
endif()

function(quire_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;MODULES;TESTS" ${ARGN})

  set(include_dir ${PROJECT_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${include_dir})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${include_dir}/${name} SYMBOLIC)

  set(target quire_${name})
  add_library(${target} OBJECT ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC ${include_dir} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE quire_options)
  set_property(GLOBAL APPEND PROPERTY QUIRE_MODULES ${name})
  foreach(module IN LISTS ARG_MODULES)
    # Headers only; the objects are linked once, into libquire. Clients of this module see what it sees.
    target_include_directories(${target} PUBLIC $<TARGET_PROPERTY:quire_${module},INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(${target} PUBLIC $<TARGET_PROPERTY:quire_${module},INTERFACE_LINK_LIBRARIES>)
    add_dependencies(${target} quire_${module})
  endforeach()

  if(QUIRE_TESTS AND ARG_TESTS)
    quire_test(${name}_test ${ARG_TESTS})
    target_include_directories(${name}_test PRIVATE $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
  endif()
endfunction()

# A test program over the whole library; a module's own tests add that module's include paths.
function(quire_test name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE quire_lib quire_options GTest::gtest GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE QUIRE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  gtest_discover_tests(${name} PROPERTIES TIMEOUT 300)
endfunction()
