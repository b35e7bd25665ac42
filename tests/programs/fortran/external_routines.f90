! Routines that the program declares external: gfortran calls NAME_ with all arguments by reference. Numbers
! of bytes are integer(c_size_t). The data routines are in external_data_routines.f90.
! BUILD linked
! BUILD flags=-Wall
! EXPECT device-memory
program main
  use, intrinsic :: iso_c_binding
  use check, only: equal, pass
  implicit none
  integer, parameter :: n = 64
  integer(c_size_t), parameter :: size = 4*n
  integer, parameter :: acc_device_kind = 4
  integer, parameter :: acc_device_current = -1, acc_device_host = 2, acc_device_nvidia = 5, acc_device_cpu = 64
  integer, parameter :: acc_property_memory = 1, acc_property_free_memory = 2
  integer, parameter :: acc_property_name = 65537, acc_property_vendor = 65538, acc_property_driver = 65539
  integer, parameter :: acc_async_default = -1
  integer, external :: acc_get_default_async, acc_get_device_num, acc_get_device_type, acc_get_num_devices, &
      acc_set_cuda_stream, acc_wait_any, acc_wait_any_device
  logical, external :: acc_async_test, acc_async_test_all, acc_async_test_all_device, acc_async_test_device, &
      acc_on_device
  integer(c_size_t), external :: acc_get_property
  type(c_ptr), external :: acc_deviceptr, acc_get_cuda_stream, acc_get_current_cuda_context, &
      acc_get_current_cuda_device, acc_hostptr, acc_malloc
  external :: acc_async_wait, acc_async_wait_all, acc_attach, acc_attach_async, acc_detach, acc_detach_async, &
      acc_detach_finalize, acc_detach_finalize_async, acc_free, acc_get_property_string, acc_init, &
      acc_init_device, acc_map_data, acc_memcpy_d2d, acc_memcpy_d2d_async, acc_memcpy_device, &
      acc_memcpy_device_async, acc_memcpy_from_device, acc_memcpy_from_device_async, acc_memcpy_to_device, &
      acc_memcpy_to_device_async, acc_set_default_async, acc_set_device_num, acc_set_device_type, &
      acc_shutdown, acc_shutdown_device, acc_unmap_data, acc_wait, acc_wait_all, acc_wait_all_async, &
      acc_wait_all_device, acc_wait_all_device_async, acc_wait_async, acc_wait_device, acc_wait_device_async
  integer, target :: a(n), b(n)
  integer :: i
  call devices()
  call queues()
  call memory()
  call pointers()
  call cuda()
  call ended()
  call pass()
contains
  subroutine devices()
    integer(acc_device_kind) :: kind
    integer :: num
    character(40) :: text
    kind = acc_get_device_type()
    num = acc_get_device_num(kind)
    call equal('devices', acc_get_num_devices(kind) >= 1, .true.)
    call acc_set_device_type(kind)
    call acc_init(kind)
    call acc_init_device(num, kind)
    call acc_set_device_num(other(num), kind)
    call equal('current device', acc_get_device_num(acc_device_current), other(num))
    call acc_set_device_num(num, kind)
    call equal('memory', acc_get_property(num, kind, acc_property_memory) > 0, .true.)
    call equal('free memory', acc_get_property(num, kind, acc_property_free_memory) > 0, .true.)
    text = ''
    call acc_get_property_string(num, kind, acc_property_name, text)
    call equal('name', len_trim(text) > 0, .true.)
    call acc_get_property_string(num, kind, acc_property_vendor, text)
    call equal('vendor', len_trim(text) > 0, .true.)
    call acc_get_property_string(num, kind, acc_property_driver, text)
    call equal('driver', len_trim(text) > 0, .true.)
    call equal('on host', acc_on_device(acc_device_host), .true.)
    call equal('types differ', acc_device_cpu /= acc_device_nvidia, .true.)
  end subroutine

  subroutine queues()
    integer :: num, any, initial, list(2)
    num = acc_get_device_num(acc_get_device_type())
    list = [1, 2]
    initial = acc_get_default_async()
    call acc_set_default_async(2)
    call equal('set queue', acc_get_default_async(), 2)
    call acc_set_default_async(acc_async_default)
    call equal('reset queue', acc_get_default_async(), initial)
    !$acc enter data create(a)
    !$acc parallel loop present(a) async(1)
    do i = 1, n
      a(i) = 2
    end do
    call acc_wait_async(1, 2)
    call acc_wait_device_async(2, 3, num)
    call acc_wait_all_async(2)
    call acc_wait_all_device_async(3, num)
    !$acc update self(a) async(3)
    any = acc_wait_any(2, list)
    call equal('any', any == 1 .or. any == 2, .true.)
    any = acc_wait_any_device(2, list, num)
    call equal('any of device', any == 1 .or. any == 2, .true.)
    call acc_wait(3)
    call all_are('queues', 2)
    call equal('test', acc_async_test(3), .true.)
    call equal('test device', acc_async_test_device(3, num), .true.)
    call acc_wait_device(1, num)
    call acc_async_wait(2)
    call acc_wait_all()
    call acc_async_wait_all()
    call acc_wait_all_device(num)
    call equal('test all', acc_async_test_all(), .true.)
    call equal('test all device', acc_async_test_all_device(num), .true.)
    !$acc exit data delete(a)
  end subroutine

  subroutine memory()
    type(c_ptr) :: one, two
    integer(acc_device_kind) :: kind
    integer :: num, next
    kind = acc_get_device_type()
    num = acc_get_device_num(kind)
    next = other(num)
    one = acc_malloc(size)
    two = acc_malloc(size)
    call equal('malloc', c_associated(one) .and. c_associated(two), .true.)
    call equal('malloc twice', c_associated(one, two), .false.)
    a = 3
    call acc_memcpy_to_device(one, a, size)
    call acc_memcpy_device(two, one, size)
    a = 0
    call acc_memcpy_from_device(a, two, size)
    call all_are('memcpy', 3)
    a = 4
    call acc_memcpy_to_device_async(one, a, size, 1)
    call acc_memcpy_device_async(two, one, size, 1)
    call acc_wait(1)
    a = 0
    call acc_memcpy_from_device_async(a, two, size, 1)
    call acc_wait(1)
    call all_are('memcpy_async', 4)
    call acc_map_data(a, one, size)
    call equal('deviceptr', c_associated(acc_deviceptr(a), one), .true.)
    call equal('hostptr', c_associated(acc_hostptr(one), c_loc(a)), .true.)
    call add(1)
    !$acc update self(a)
    call all_are('mapped', 5)
    call acc_unmap_data(a)
    call equal('unmapped', c_associated(acc_deviceptr(a)), .false.)
    call acc_free(one)
    call acc_free(two)

    !$acc enter data copyin(a)
    call acc_set_device_num(next, kind)
    !$acc enter data create(b)
    call acc_memcpy_d2d(b, a, size, next, num)
    !$acc update self(b)
    call equal('d2d', all(b == 5), .true.)
    call acc_set_device_num(num, kind)
    call add(1)
    call acc_memcpy_d2d_async(b, a, size, next, num, 1)
    call acc_wait(1)
    !$acc exit data delete(a)
    call acc_set_device_num(next, kind)
    !$acc exit data copyout(b)
    call equal('d2d_async', all(b == 6), .true.)
    call acc_set_device_num(num, kind)
  end subroutine

  ! A pointer of C's in a structure, which the region follows.
  subroutine pointers()
    type :: list
      type(c_ptr) :: next
    end type
    type(list), target :: s
    integer(c_intptr_t) :: before, after
    s%next = c_loc(a)
    before = transfer(s%next, before)
    !$acc enter data copyin(s, a)
    call acc_attach(s%next)
    call acc_attach_async(s%next, 1)
    call acc_wait(1)
    !$acc parallel present(s) copyout(after)
    after = transfer(s%next, after)
    !$acc end parallel
    call equal('attached', after /= before, .true.)
    call acc_detach(s%next)
    call acc_detach_async(s%next, 1)
    call acc_wait(1)
    call acc_attach(s%next)
    call acc_attach(s%next)
    call acc_detach_finalize(s%next)
    call acc_attach(s%next)
    call acc_detach_finalize_async(s%next, 1)
    call acc_wait(1)
    !$acc parallel present(s) copyout(after)
    after = transfer(s%next, after)
    !$acc end parallel
    call equal('detached', after == before, .true.)
    !$acc exit data delete(s, a)
  end subroutine

  ! Objects of CUDA on a GPU, nothing elsewhere.
  subroutine cuda()
    type(c_ptr) :: stream
    logical :: gpu
    integer :: ignored
    gpu = c_associated(acc_get_current_cuda_context())
    call equal('device', c_associated(acc_get_current_cuda_device()), gpu)
    stream = acc_get_cuda_stream(1)
    call equal('stream', c_associated(stream), gpu)
    ignored = acc_set_cuda_stream(1, stream)
    call equal('set stream', ignored == 1, gpu)
  end subroutine

  subroutine ended()
    integer(acc_device_kind) :: kind
    integer :: num
    kind = acc_get_device_type()
    num = acc_get_device_num(kind)
    call acc_shutdown_device(num, kind)
    call acc_shutdown(kind)
    call acc_set_device_num(num, kind)
  end subroutine

  ! Another device than number num, where there is one.
  integer function other(num)
    integer, intent(in) :: num
    other = num
    if (acc_get_num_devices(acc_get_device_type()) >= 2) other = merge(1, 0, num == 0)
  end function

  subroutine add(more)
    integer, intent(in) :: more
    !$acc parallel loop present(a)
    do i = 1, n
      a(i) = a(i) + more
    end do
  end subroutine

  subroutine all_are(what, value)
    character(*), intent(in) :: what
    integer, intent(in) :: value
    call equal(what, all(a == value), .true.)
  end subroutine
end program
