! OpenACC's routines for Fortran (OpenACC 3.3, chapter 3 and appendix
! A), as libacc.so provides them. May be included in fixed and in free
! form; the module openacc is this file.
! 
! Takes the place of GCC's: constants have GCC's values, and what both
! declare is called by the same names.

      integer, parameter :: openacc_version = 201711
      integer, parameter :: acc_device_kind = 4
      integer, parameter :: acc_handle_kind = 4
      integer, parameter :: acc_device_property_kind = 4

! Device types (3.1, A.1). acc_device_cpu is Accord's: worker
! processes on CPU cores.
      integer(acc_device_kind), parameter ::                            &
     &  acc_device_current = -1
      integer(acc_device_kind), parameter ::                            &
     &  acc_device_none = 0
      integer(acc_device_kind), parameter ::                            &
     &  acc_device_default = 1
      integer(acc_device_kind), parameter ::                            &
     &  acc_device_host = 2
      integer(acc_device_kind), parameter ::                            &
     &  acc_device_not_host = 4
      integer(acc_device_kind), parameter ::                            &
     &  acc_device_nvidia = 5
      integer(acc_device_kind), parameter ::                            &
     &  acc_device_radeon = 8
      integer(acc_device_kind), parameter ::                            &
     &  acc_device_cpu = 64

! What acc_get_property and acc_get_property_string tell (3.2.6).
      integer(acc_device_property_kind), parameter ::                   &
     &  acc_property_memory = 1
      integer(acc_device_property_kind), parameter ::                   &
     &  acc_property_free_memory = 2
      integer(acc_device_property_kind), parameter ::                   &
     &  acc_property_name = 65537
      integer(acc_device_property_kind), parameter ::                   &
     &  acc_property_vendor = 65538
      integer(acc_device_property_kind), parameter ::                   &
     &  acc_property_driver = 65539

! Async-arguments with a meaning of their own (2.14.3, 2.16).
      integer(acc_handle_kind), parameter ::                            &
     &  acc_async_noval = -1
      integer(acc_handle_kind), parameter ::                            &
     &  acc_async_sync = -2
      integer(acc_handle_kind), parameter ::                            &
     &  acc_async_default = -1

! Choosing devices (3.2.1 to 3.2.5).
      interface acc_get_num_devices
      function acc_get_num_devices_h(dev_type)
        import :: acc_device_kind
        integer :: acc_get_num_devices_h
        integer(acc_device_kind) :: dev_type
      end function acc_get_num_devices_h
      end interface

      interface acc_set_device_type
      subroutine acc_set_device_type_h(dev_type)
        import :: acc_device_kind
        integer(acc_device_kind) :: dev_type
      end subroutine acc_set_device_type_h
      end interface

      interface acc_get_device_type
      function acc_get_device_type_h()
        import :: acc_device_kind
        integer(acc_device_kind) :: acc_get_device_type_h
      end function acc_get_device_type_h
      end interface

      interface acc_set_device_num
      subroutine acc_set_device_num_h(dev_num, dev_type)
        import :: acc_device_kind
        integer :: dev_num
        integer(acc_device_kind) :: dev_type
      end subroutine acc_set_device_num_h
      end interface

      interface acc_get_device_num
      function acc_get_device_num_h(dev_type)
        import :: acc_device_kind
        integer :: acc_get_device_num_h
        integer(acc_device_kind) :: dev_type
      end function acc_get_device_num_h
      end interface

! What a device is (3.2.6).
      interface acc_get_property
      function acc_get_property_h(dev_num, dev_type, property)
        use, intrinsic :: iso_c_binding, only: c_size_t
        import :: acc_device_kind, acc_device_property_kind
        integer(c_size_t) :: acc_get_property_h
        integer, value :: dev_num
        integer(acc_device_kind), value :: dev_type
        integer(acc_device_property_kind), value :: property
      end function acc_get_property_h
      end interface

      interface acc_get_property_string
      subroutine acc_get_property_string_h(dev_num, dev_type,           &
     &  property, string)
        import :: acc_device_kind, acc_device_property_kind
        integer, value :: dev_num
        integer(acc_device_kind), value :: dev_type
        integer(acc_device_property_kind), value :: property
        character(*) :: string
      end subroutine acc_get_property_string_h
      end interface

! Starting and ending devices (3.2.7, 3.2.8).
      interface acc_init
      subroutine acc_init_h(dev_type)
        import :: acc_device_kind
        integer(acc_device_kind) :: dev_type
      end subroutine acc_init_h
      end interface

      interface
      subroutine acc_init_device(dev_num, dev_type)
        import :: acc_device_kind
        integer :: dev_num
        integer(acc_device_kind) :: dev_type
      end subroutine acc_init_device
      end interface

      interface acc_shutdown
      subroutine acc_shutdown_h(dev_type)
        import :: acc_device_kind
        integer(acc_device_kind) :: dev_type
      end subroutine acc_shutdown_h
      end interface

      interface
      subroutine acc_shutdown_device(dev_num, dev_type)
        import :: acc_device_kind
        integer :: dev_num
        integer(acc_device_kind) :: dev_type
      end subroutine acc_shutdown_device
      end interface

! Queues: whether they are done (3.2.9).
      interface acc_async_test
      function acc_async_test_h(wait_arg)
        import :: acc_handle_kind
        logical :: acc_async_test_h
        integer(acc_handle_kind) :: wait_arg
      end function acc_async_test_h
      end interface

      interface
      function acc_async_test_device(wait_arg, dev_num)
        import :: acc_handle_kind
        logical :: acc_async_test_device
        integer(acc_handle_kind) :: wait_arg
        integer :: dev_num
      end function acc_async_test_device
      end interface

      interface acc_async_test_all
      function acc_async_test_all_h()
        logical :: acc_async_test_all_h
      end function acc_async_test_all_h
      end interface

      interface
      function acc_async_test_all_device(dev_num)
        logical :: acc_async_test_all_device
        integer :: dev_num
      end function acc_async_test_all_device
      end interface

! Waiting for queues (3.2.10, 3.2.12). acc_async_wait and
! acc_async_wait_all are names of OpenACC 1.0. acc_wait_any gives the
! place in the list of a queue that is done, counted from 1.
      interface acc_wait
      subroutine acc_wait_h(wait_arg)
        import :: acc_handle_kind
        integer(acc_handle_kind) :: wait_arg
      end subroutine acc_wait_h
      end interface

      interface acc_async_wait
        procedure acc_wait_h
      end interface

      interface
      subroutine acc_wait_device(wait_arg, dev_num)
        import :: acc_handle_kind
        integer(acc_handle_kind) :: wait_arg
        integer :: dev_num
      end subroutine acc_wait_device
      end interface

      interface
      function acc_wait_any(count, wait_arg)
        import :: acc_handle_kind
        integer :: acc_wait_any
        integer :: count
        integer(acc_handle_kind), dimension(*) :: wait_arg
      end function acc_wait_any
      end interface

      interface
      function acc_wait_any_device(count, wait_arg, dev_num)
        import :: acc_handle_kind
        integer :: acc_wait_any_device
        integer :: count
        integer(acc_handle_kind), dimension(*) :: wait_arg
        integer :: dev_num
      end function acc_wait_any_device
      end interface

      interface acc_wait_all
      subroutine acc_wait_all_h()
      end subroutine acc_wait_all_h
      end interface

      interface acc_async_wait_all
        procedure acc_wait_all_h
      end interface

      interface
      subroutine acc_wait_all_device(dev_num)
        integer :: dev_num
      end subroutine acc_wait_all_device
      end interface

! Queues that wait for queues (3.2.11).
      interface acc_wait_async
      subroutine acc_wait_async_h(wait_arg, async_arg)
        import :: acc_handle_kind
        integer(acc_handle_kind) :: wait_arg
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_wait_async_h
      end interface

      interface
      subroutine acc_wait_device_async(wait_arg, async_arg, dev_num)
        import :: acc_handle_kind
        integer(acc_handle_kind) :: wait_arg
        integer(acc_handle_kind) :: async_arg
        integer :: dev_num
      end subroutine acc_wait_device_async
      end interface

      interface acc_wait_all_async
      subroutine acc_wait_all_async_h(async_arg)
        import :: acc_handle_kind
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_wait_all_async_h
      end interface

      interface
      subroutine acc_wait_all_device_async(async_arg, dev_num)
        import :: acc_handle_kind
        integer(acc_handle_kind) :: async_arg
        integer :: dev_num
      end subroutine acc_wait_all_device_async
      end interface

! The queue of "async" without an argument (3.2.13, 3.2.14).
      interface
      function acc_get_default_async()
        import :: acc_handle_kind
        integer(acc_handle_kind) :: acc_get_default_async
      end function acc_get_default_async
      end interface

      interface
      subroutine acc_set_default_async(async_arg)
        import :: acc_handle_kind
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_set_default_async
      end interface

! Whether this code runs on a device of the type (3.2.15).
      interface acc_on_device
      function acc_on_device_h(dev_type)
        import :: acc_device_kind
!$acc routine seq
        logical :: acc_on_device_h
        integer(acc_device_kind) :: dev_type
      end function acc_on_device_h
      end interface

! Device memory (3.2.16, 3.2.17).
      interface
      function acc_malloc(bytes) bind(c, name="acc_malloc")
        use, intrinsic :: iso_c_binding, only: c_ptr, c_size_t
        type(c_ptr) :: acc_malloc
        integer(c_size_t), value :: bytes
      end function acc_malloc
      end interface

      interface
      subroutine acc_free(data_dev) bind(c, name="acc_free")
        use, intrinsic :: iso_c_binding, only: c_ptr
        type(c_ptr), value :: data_dev
      end subroutine acc_free
      end interface

! Data by host address (3.2.18): present, or copied in or created. Names
! with "present_or" and "p" are those of OpenACC 2.0.
      interface acc_copyin
      subroutine acc_copyin_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_copyin_32_h
      subroutine acc_copyin_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_copyin_64_h
      subroutine acc_copyin_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_copyin_array_h
      end interface

      interface acc_present_or_copyin
      subroutine acc_present_or_copyin_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_present_or_copyin_32_h
      subroutine acc_present_or_copyin_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_present_or_copyin_64_h
      subroutine acc_present_or_copyin_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_present_or_copyin_array_h
      end interface

      interface acc_pcopyin
        procedure acc_present_or_copyin_32_h
        procedure acc_present_or_copyin_64_h
        procedure acc_present_or_copyin_array_h
      end interface

      interface acc_create
      subroutine acc_create_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_create_32_h
      subroutine acc_create_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_create_64_h
      subroutine acc_create_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_create_array_h
      end interface

      interface acc_present_or_create
      subroutine acc_present_or_create_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_present_or_create_32_h
      subroutine acc_present_or_create_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_present_or_create_64_h
      subroutine acc_present_or_create_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_present_or_create_array_h
      end interface

      interface acc_pcreate
        procedure acc_present_or_create_32_h
        procedure acc_present_or_create_64_h
        procedure acc_present_or_create_array_h
      end interface

      interface acc_copyin_async
      subroutine acc_copyin_async_32_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_copyin_async_32_h
      subroutine acc_copyin_async_64_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_copyin_async_64_h
      subroutine acc_copyin_async_array_h(data_arg, async_arg)
        import :: acc_handle_kind
        type(*), dimension(..) :: data_arg
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_copyin_async_array_h
      end interface

      interface acc_create_async
      subroutine acc_create_async_32_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_create_async_32_h
      subroutine acc_create_async_64_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_create_async_64_h
      subroutine acc_create_async_array_h(data_arg, async_arg)
        import :: acc_handle_kind
        type(*), dimension(..) :: data_arg
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_create_async_array_h
      end interface

! Copied out or deleted with the last reference (3.2.19); with
! "finalize", now.
      interface acc_copyout
      subroutine acc_copyout_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_copyout_32_h
      subroutine acc_copyout_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_copyout_64_h
      subroutine acc_copyout_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_copyout_array_h
      end interface

      interface acc_copyout_async
      subroutine acc_copyout_async_32_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_copyout_async_32_h
      subroutine acc_copyout_async_64_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_copyout_async_64_h
      subroutine acc_copyout_async_array_h(data_arg, async_arg)
        import :: acc_handle_kind
        type(*), dimension(..) :: data_arg
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_copyout_async_array_h
      end interface

      interface acc_copyout_finalize
      subroutine acc_copyout_finalize_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_copyout_finalize_32_h
      subroutine acc_copyout_finalize_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_copyout_finalize_64_h
      subroutine acc_copyout_finalize_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_copyout_finalize_array_h
      end interface

      interface acc_copyout_finalize_async
      subroutine acc_copyout_finalize_async_32_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_copyout_finalize_async_32_h
      subroutine acc_copyout_finalize_async_64_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_copyout_finalize_async_64_h
      subroutine acc_copyout_finalize_async_array_h(data_arg, async_arg)
        import :: acc_handle_kind
        type(*), dimension(..) :: data_arg
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_copyout_finalize_async_array_h
      end interface

      interface acc_delete
      subroutine acc_delete_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_delete_32_h
      subroutine acc_delete_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_delete_64_h
      subroutine acc_delete_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_delete_array_h
      end interface

      interface acc_delete_async
      subroutine acc_delete_async_32_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_delete_async_32_h
      subroutine acc_delete_async_64_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_delete_async_64_h
      subroutine acc_delete_async_array_h(data_arg, async_arg)
        import :: acc_handle_kind
        type(*), dimension(..) :: data_arg
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_delete_async_array_h
      end interface

      interface acc_delete_finalize
      subroutine acc_delete_finalize_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_delete_finalize_32_h
      subroutine acc_delete_finalize_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_delete_finalize_64_h
      subroutine acc_delete_finalize_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_delete_finalize_array_h
      end interface

      interface acc_delete_finalize_async
      subroutine acc_delete_finalize_async_32_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_delete_finalize_async_32_h
      subroutine acc_delete_finalize_async_64_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_delete_finalize_async_64_h
      subroutine acc_delete_finalize_async_array_h(data_arg, async_arg)
        import :: acc_handle_kind
        type(*), dimension(..) :: data_arg
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_delete_finalize_async_array_h
      end interface

! Copies of present data (3.2.20).
      interface acc_update_device
      subroutine acc_update_device_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_update_device_32_h
      subroutine acc_update_device_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_update_device_64_h
      subroutine acc_update_device_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_update_device_array_h
      end interface

      interface acc_update_device_async
      subroutine acc_update_device_async_32_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_update_device_async_32_h
      subroutine acc_update_device_async_64_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_update_device_async_64_h
      subroutine acc_update_device_async_array_h(data_arg, async_arg)
        import :: acc_handle_kind
        type(*), dimension(..) :: data_arg
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_update_device_async_array_h
      end interface

      interface acc_update_self
      subroutine acc_update_self_32_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end subroutine acc_update_self_32_h
      subroutine acc_update_self_64_h(data_arg, bytes)
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end subroutine acc_update_self_64_h
      subroutine acc_update_self_array_h(data_arg)
        type(*), dimension(..) :: data_arg
      end subroutine acc_update_self_array_h
      end interface

      interface acc_update_self_async
      subroutine acc_update_self_async_32_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_update_self_async_32_h
      subroutine acc_update_self_async_64_h(data_arg, bytes, async)
        import :: acc_handle_kind
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
        integer(acc_handle_kind) :: async
      end subroutine acc_update_self_async_64_h
      subroutine acc_update_self_async_array_h(data_arg, async_arg)
        import :: acc_handle_kind
        type(*), dimension(..) :: data_arg
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_update_self_async_array_h
      end interface

! The present table (3.2.21 to 3.2.25).
      interface
      subroutine acc_map_data(data_arg, data_dev, bytes)                &
     &  bind(c, name="acc_map_data")
        use, intrinsic :: iso_c_binding, only: c_ptr, c_size_t
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        type(c_ptr), value :: data_dev
        integer(c_size_t), value :: bytes
      end subroutine acc_map_data
      end interface

      interface
      subroutine acc_unmap_data(data_arg) bind(c, name="acc_unmap_data")
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
      end subroutine acc_unmap_data
      end interface

      interface
      function acc_deviceptr(data_arg) bind(c, name="acc_deviceptr")
        use, intrinsic :: iso_c_binding, only: c_ptr
        type(c_ptr) :: acc_deviceptr
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
      end function acc_deviceptr
      end interface

      interface
      function acc_hostptr(data_dev) bind(c, name="acc_hostptr")
        use, intrinsic :: iso_c_binding, only: c_ptr
        type(c_ptr) :: acc_hostptr
        type(c_ptr), value :: data_dev
      end function acc_hostptr
      end interface

      interface acc_is_present
      function acc_is_present_32_h(data_arg, bytes)
        logical :: acc_is_present_32_h
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(4) :: bytes
      end function acc_is_present_32_h
      function acc_is_present_64_h(data_arg, bytes)
        logical :: acc_is_present_64_h
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg
        type(*), dimension(*) :: data_arg
        integer(8) :: bytes
      end function acc_is_present_64_h
      function acc_is_present_array_h(data_arg)
        logical :: acc_is_present_array_h
        type(*), dimension(..) :: data_arg
      end function acc_is_present_array_h
      end interface

! Copies by device address (3.2.26 to 3.2.28).
      interface
      subroutine acc_memcpy_to_device(data_dev_dest, data_host_src,     &
     &  bytes) bind(c, name="acc_memcpy_to_device")
        use, intrinsic :: iso_c_binding, only: c_ptr, c_size_t
        type(c_ptr), value :: data_dev_dest
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_host_src
        type(*), dimension(*) :: data_host_src
        integer(c_size_t), value :: bytes
      end subroutine acc_memcpy_to_device
      end interface

      interface
      subroutine acc_memcpy_to_device_async(data_dev_dest,              &
     &  data_host_src, bytes, async_arg)                                &
     &  bind(c, name="acc_memcpy_to_device_async")
        use, intrinsic :: iso_c_binding, only: c_int, c_ptr, c_size_t
        type(c_ptr), value :: data_dev_dest
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_host_src
        type(*), dimension(*) :: data_host_src
        integer(c_size_t), value :: bytes
        integer(c_int), value :: async_arg
      end subroutine acc_memcpy_to_device_async
      end interface

      interface
      subroutine acc_memcpy_from_device(data_host_dest, data_dev_src,   &
     &  bytes) bind(c, name="acc_memcpy_from_device")
        use, intrinsic :: iso_c_binding, only: c_ptr, c_size_t
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_host_dest
        type(*), dimension(*) :: data_host_dest
        type(c_ptr), value :: data_dev_src
        integer(c_size_t), value :: bytes
      end subroutine acc_memcpy_from_device
      end interface

      interface
      subroutine acc_memcpy_from_device_async(data_host_dest,           &
     &  data_dev_src, bytes, async_arg)                                 &
     &  bind(c, name="acc_memcpy_from_device_async")
        use, intrinsic :: iso_c_binding, only: c_int, c_ptr, c_size_t
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_host_dest
        type(*), dimension(*) :: data_host_dest
        type(c_ptr), value :: data_dev_src
        integer(c_size_t), value :: bytes
        integer(c_int), value :: async_arg
      end subroutine acc_memcpy_from_device_async
      end interface

      interface
      subroutine acc_memcpy_device(data_dev_dest, data_dev_src, bytes)  &
     &  bind(c, name="acc_memcpy_device")
        use, intrinsic :: iso_c_binding, only: c_ptr, c_size_t
        type(c_ptr), value :: data_dev_dest
        type(c_ptr), value :: data_dev_src
        integer(c_size_t), value :: bytes
      end subroutine acc_memcpy_device
      end interface

      interface
      subroutine acc_memcpy_device_async(data_dev_dest, data_dev_src,   &
     &  bytes, async_arg) bind(c, name="acc_memcpy_device_async")
        use, intrinsic :: iso_c_binding, only: c_int, c_ptr, c_size_t
        type(c_ptr), value :: data_dev_dest
        type(c_ptr), value :: data_dev_src
        integer(c_size_t), value :: bytes
        integer(c_int), value :: async_arg
      end subroutine acc_memcpy_device_async
      end interface

! Pointers on the device (3.2.29). Only variables of type(c_ptr) can be
! named: of Fortran's own pointers the compiler passes the target. For
! those there are the clauses attach and detach of enter data and
! exit data.
      interface
      subroutine acc_attach(ptr_addr)
        use, intrinsic :: iso_c_binding, only: c_ptr
        type(c_ptr) :: ptr_addr
      end subroutine acc_attach
      end interface

      interface
      subroutine acc_attach_async(ptr_addr, async_arg)
        use, intrinsic :: iso_c_binding, only: c_ptr
        import :: acc_handle_kind
        type(c_ptr) :: ptr_addr
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_attach_async
      end interface

      interface
      subroutine acc_detach(ptr_addr)
        use, intrinsic :: iso_c_binding, only: c_ptr
        type(c_ptr) :: ptr_addr
      end subroutine acc_detach
      end interface

      interface
      subroutine acc_detach_async(ptr_addr, async_arg)
        use, intrinsic :: iso_c_binding, only: c_ptr
        import :: acc_handle_kind
        type(c_ptr) :: ptr_addr
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_detach_async
      end interface

      interface
      subroutine acc_detach_finalize(ptr_addr)
        use, intrinsic :: iso_c_binding, only: c_ptr
        type(c_ptr) :: ptr_addr
      end subroutine acc_detach_finalize
      end interface

      interface
      subroutine acc_detach_finalize_async(ptr_addr, async_arg)
        use, intrinsic :: iso_c_binding, only: c_ptr
        import :: acc_handle_kind
        type(c_ptr) :: ptr_addr
        integer(acc_handle_kind) :: async_arg
      end subroutine acc_detach_finalize_async
      end interface

! From device to device (3.2.30): host data, whose copies on the two
! devices are meant.
      interface
      subroutine acc_memcpy_d2d(data_arg_dest, data_arg_src, bytes,     &
     &  dev_num_dest, dev_num_src) bind(c, name="acc_memcpy_d2d")
        use, intrinsic :: iso_c_binding, only: c_int, c_size_t
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg_dest
        type(*), dimension(*) :: data_arg_dest
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg_src
        type(*), dimension(*) :: data_arg_src
        integer(c_size_t), value :: bytes
        integer(c_int), value :: dev_num_dest
        integer(c_int), value :: dev_num_src
      end subroutine acc_memcpy_d2d
      end interface

      interface
      subroutine acc_memcpy_d2d_async(data_arg_dest, data_arg_src,      &
     &  bytes, dev_num_dest, dev_num_src, async_arg_src)                &
     &  bind(c, name="acc_memcpy_d2d_async")
        use, intrinsic :: iso_c_binding, only: c_int, c_size_t
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg_dest
        type(*), dimension(*) :: data_arg_dest
!GCC$ ATTRIBUTES NO_ARG_CHECK :: data_arg_src
        type(*), dimension(*) :: data_arg_src
        integer(c_size_t), value :: bytes
        integer(c_int), value :: dev_num_dest
        integer(c_int), value :: dev_num_src
        integer(c_int), value :: async_arg_src
      end subroutine acc_memcpy_d2d_async
      end interface

! CUDA's own objects (A.2.1).
      interface
      function acc_get_current_cuda_device()                            &
     &  bind(c, name="acc_get_current_cuda_device")
        use, intrinsic :: iso_c_binding, only: c_ptr
        type(c_ptr) :: acc_get_current_cuda_device
      end function acc_get_current_cuda_device
      end interface

      interface
      function acc_get_current_cuda_context()                           &
     &  bind(c, name="acc_get_current_cuda_context")
        use, intrinsic :: iso_c_binding, only: c_ptr
        type(c_ptr) :: acc_get_current_cuda_context
      end function acc_get_current_cuda_context
      end interface

      interface
      function acc_get_cuda_stream(async_arg)                           &
     &  bind(c, name="acc_get_cuda_stream")
        use, intrinsic :: iso_c_binding, only: c_int, c_ptr
        type(c_ptr) :: acc_get_cuda_stream
        integer(c_int), value :: async_arg
      end function acc_get_cuda_stream
      end interface

      interface
      function acc_set_cuda_stream(async_arg, stream)                   &
     &  bind(c, name="acc_set_cuda_stream")
        use, intrinsic :: iso_c_binding, only: c_int, c_ptr
        integer(c_int) :: acc_set_cuda_stream
        integer(c_int), value :: async_arg
        type(c_ptr), value :: stream
      end function acc_set_cuda_stream
      end interface
