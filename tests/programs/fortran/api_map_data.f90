! acc_map_data of arrays on memory of acc_malloc: static, allocatable, sections, and by c_loc; constructs find them, and exit data leaves
! them mapped (3.2.21).
! BUILD headers
! BUILD linked
! EXPECT device-memory
program main
  use, intrinsic :: iso_c_binding
  use check
  use openacc
  implicit none
  integer, parameter :: n = 100
  real(8), target :: a(n)
  real(8), allocatable, target :: b(:, :)
  type(c_ptr) :: d, e
  integer :: i
  allocate (b(n, 3))
  a = 1
  b = 2
  d = acc_malloc(int(8*n, c_size_t))
  e = acc_malloc(int(16*n, c_size_t))
  call acc_map_data(a, d, int(8*n, c_size_t))
  call acc_map_data(b(:, 2:3), e, int(16*n, c_size_t))
  call equal('a', acc_is_present(a), .true.)
  call equal('two columns', acc_is_present(b(:, 2:3)), .true.)
  call equal('not the first', acc_is_present(b(1, 1)), .false.)
  call equal('where it was put', c_associated(acc_deviceptr(b(:, 2:3)), e), .true.)
  call equal('and back', c_associated(acc_hostptr(d), c_loc(a)), .true.)
  !$acc update device(a, b(:, 2:3))
  !$acc parallel loop copy(a) present(b(:, 2:3))
  do i = 1, n
    a(i) = a(i) + b(i, 2)*i
    b(i, 3) = a(i)
  end do
  call equal('copy copies nothing', a(n), 1d0)
  !$acc exit data delete(a) finalize
  call equal('still mapped', acc_is_present(a), .true.)
  !$acc update self(a, b(:, 3))
  call equal('a(n)', a(n), 1d0 + 2*n)
  call equal('b(n, 3)', b(n, 3), 1d0 + 2*n)
  call acc_unmap_data(a)
  call acc_unmap_data(b(:, 2:3))
  call equal('unmapped', acc_is_present(a) .or. acc_is_present(b), .false.)
  ! The memory is still the program's own, and a second array takes it.
  call acc_map_data(b(:, 1), d, int(8*n, c_size_t))
  !$acc parallel loop present(b(:, 1:1))
  do i = 1, n
    b(i, 1) = b(i, 1) + 5
  end do
  call acc_update_self(b(:, 1))
  call equal('what the first one left', b(n, 1), 6d0 + 2*n)
  call acc_unmap_data(b(:, 1))
  call acc_free(d)
  call acc_free(e)
  call pass()
end program
