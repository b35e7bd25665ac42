! Rows of acc_memcpy_d2d_async in one queue, whose places overlap, with regions in between: they come in their order (3.2.30).
! BUILD headers
! BUILD linked
! EXPECT device-memory
program main
  use, intrinsic :: iso_c_binding
  use check
  use openacc
  implicit none
  integer, parameter :: n = 200000, step = 9000, len = 30000, queue = 4
  integer(c_size_t), parameter :: bytes = 4*len
  integer :: a(n), there(n)
  integer :: i, kind, here, other, turn, first
  kind = acc_get_device_type()
  here = acc_get_device_num(kind)
  other = mod(here + 1, acc_get_num_devices(kind))
  if (other == here) then
    write (*, '(a)') 'PASS'
    stop
  end if
  a = -1
  call acc_set_device_num(other, kind)
  call acc_copyin(a)
  call acc_set_device_num(here, kind)
  a = [(i, i = 1, n)]
  call acc_copyin(a)
  there = -1
  do turn = 0, 17
    ! The next one overwrites most of it.
    first = 1 + turn*step
    call acc_memcpy_d2d_async(a(first:first + len - 1), a(first:first + len - 1), bytes, other, here, queue)
    there(first:first + len - 1) = [(value(i, turn), i = first, first + len - 1)]
    if (mod(turn, 5) == 4) then
      !$acc parallel loop present(a) async(queue)
      do i = 1, n
        a(i) = a(i) + n
      end do
    end if
  end do
  call acc_wait(queue)
  call acc_set_device_num(other, kind)
  call acc_update_self(a)
  call equal('what came', count(a /= there), 0)
  write (*, '(a)') 'PASS'
contains
  ! What is there when the copy of a turn takes it.
  pure integer function value(i, turn)
    integer, intent(in) :: i, turn
    value = i + turn/5*n
  end function
end program
