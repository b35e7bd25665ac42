! acc_shutdown gives everything up, and the next use starts the device anew.
program main
  use check
  implicit none
  integer(acc_device_kind) :: kind
  integer :: a(10), i, round
  kind = acc_get_device_type()
  do round = 1, 3
    call acc_init(kind)
    a = round
    !$acc enter data copyin(a)
    !$acc parallel loop present(a)
    do i = 1, 10
      a(i) = a(i)*2
    end do
    !$acc update self(a)
    call equal('a', sum(a), 20*round)
    !$acc exit data delete(a)
    call acc_shutdown(kind)
  end do
  !$acc parallel loop copy(a)
  do i = 1, 10
    a(i) = a(i) + 1
  end do
  call equal('after', sum(a), 70)
  call pass()
end program
