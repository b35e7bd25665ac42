! OpenACC's module for Fortran (OpenACC 3.3, chapter 3 and appendix A), as libacc.so provides it. Modules in compiled form
! belong to one version of gfortran: "accord fc" compiles this file once for the compiler at hand.

module openacc
  implicit none
  public
  include 'openacc_lib.h'
end module

! The kinds by themselves, as in GCC's module of this name.
module openacc_kinds
  use openacc, only: acc_device_kind, acc_handle_kind, acc_device_property_kind, &
      acc_device_current, acc_device_none, acc_device_default, acc_device_host, acc_device_not_host, &
      acc_device_nvidia, acc_device_radeon, acc_device_cpu, &
      acc_property_memory, acc_property_free_memory, acc_property_name, acc_property_vendor, acc_property_driver, &
      acc_async_noval, acc_async_sync
  implicit none
  public
end module

! What Accord has beyond GCC's module: all of it is in the module openacc here.
module accord_openacc
  use openacc, only: acc_device_cpu, acc_memcpy_d2d, acc_memcpy_d2d_async, acc_memcpy_device, acc_memcpy_device_async, &
      acc_get_default_async, acc_set_default_async
  implicit none
  public
end module
