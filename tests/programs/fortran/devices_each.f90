! Every device in turn: data stays where it was put, and comes back from there.
program main
  use check
  implicit none
  integer :: count, d, i, before
  integer, allocatable :: a(:, :)
  integer(acc_device_kind) :: kind
  kind = acc_get_device_type()
  count = acc_get_num_devices(kind)
  before = acc_get_device_num(kind)
  allocate (a(20, 0:count - 1))
  a = 1
  do d = 0, count - 1
    call acc_set_device_num(d, kind)
    call equal('the device', acc_get_device_num(kind), d)
    !$acc enter data copyin(a(:, d:d))
    !$acc parallel loop present(a(:, d:d)) async(1)
    do i = 1, 20
      a(i, d) = a(i, d) + d*100 + i
    end do
  end do
  do d = count - 1, 0, -1
    call acc_set_device_num(d, kind)
    !$acc wait(1)
    call equal('present', acc_is_present(a(:, d)), .true.)
    !$acc exit data copyout(a(:, d:d))
  end do
  do d = 0, count - 1
    do i = 1, 20
      call equal('a', a(i, d), 1 + d*100 + i)
    end do
  end do
  call acc_set_device_num(before, kind)
  call pass()
end program
