# cmake --install puts the program, the library and its headers where find_package(quire) finds them.
include(CMakePackageConfigHelpers)

install(TARGETS quire_cli quire_lib EXPORT quireTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/quire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/include/generated/quire/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quire)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/quire)
install(EXPORT quireTargets NAMESPACE quire:: DESTINATION ${package_dir})
configure_package_config_file(cmake/quireConfig.cmake.in ${PROJECT_BINARY_DIR}/quireConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/quireConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/quireConfig.cmake ${PROJECT_BINARY_DIR}/quireConfigVersion.cmake
  DESTINATION ${package_dir})
