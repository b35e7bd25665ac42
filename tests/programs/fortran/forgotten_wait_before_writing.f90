! Two queues, of one device or of two, copy to the same memory without a wait between them (2.16): it works where copies of
! ordinary memory block, and what was put in last stays.
program forgotten_wait_before_writing
  use check
  implicit none
  integer, parameter :: sizes(4) = [1, 30, 5000, 200000]
  integer :: s, f, t, other, queue, here, there
  integer(acc_device_kind) :: kind
  real(real64), allocatable :: a(:, :)
  real(real64) :: total

  kind = acc_get_device_type()
  here = acc_get_device_num(kind)
  there = mod(here + 1, acc_get_num_devices(kind))
  do s = 1, size(sizes)
    do other = 0, 1
      do queue = acc_async_sync, 2, 2 - acc_async_sync
        do f = 1, 2
          do t = 1, 3
            ! On one device the data is the first one's.
            if (t > 1 .and. (other == 0 .or. here == there)) cycle
            allocate (a(2, sizes(s)))
            call one_after_the_other()
            call equal('a(1, 1)', a(1, 1), real(10*t + queue, real64))
            if (f == 1) call equal('all', count(abs(a - (10*t + queue)) > 0), 0)
            deallocate (a)
          end do
        end do
      end do
    end do
  end do

  ! A sum that regions of two devices set.
  do queue = acc_async_sync, 2, 2 - acc_async_sync
    total = 0
    !$acc parallel copy(total) async(1)
    call slowly()
    total = total + 5
    !$acc end parallel
    if (here /= there) call acc_set_device_num(there, kind)
    !$acc parallel copyout(total) async(queue)
    total = 7 + queue
    !$acc end parallel
    call acc_wait_all()
    call acc_set_device_num(here, kind)
    call acc_wait_all()
    call equal('total', total, real(7 + queue, real64))
  end do
  print '(a)', 'PASS'

contains

  subroutine slowly()
    !$acc routine seq
    real(real64), volatile :: x
    integer :: k
    x = 0
    do k = 1, 3000000
      x = x + k
    end do
  end subroutine

  subroutine one_after_the_other()
    integer :: on
    on = merge(there, here, other == 1)
    a = 0
    if (t > 1) then
      call acc_set_device_num(on, kind)
      !$acc enter data create(a)
      call acc_set_device_num(here, kind)
    end if
    if (f == 1) then
      call bring()
    else
      call change(a(:, 1))
    end if
    call acc_set_device_num(on, kind)
    select case (t)
    case (1)
      call by_region(10*t + queue)
    case (2)
      call by_update(10*t + queue)
    case (3)
      call by_end_of_data(10*t + queue)
    end select
    call acc_wait_all()
    call acc_set_device_num(here, kind)
    call acc_wait_all()
    if (t == 2) then
      call acc_set_device_num(on, kind)
      !$acc exit data delete(a)
      call acc_set_device_num(here, kind)
    end if
  end subroutine

  ! Queue 1 brings ones after a while.
  subroutine bring()
    integer :: i
    !$acc enter data create(a)
    !$acc parallel loop present(a) async(1)
    do i = 1, size(a, 2)
      if (i == 1) call slowly()
      a(:, i) = 1
    end do
    !$acc exit data copyout(a) async(1)
  end subroutine

  ! A small array that the region copies both ways.
  subroutine change(few)
    real(real64), intent(inout) :: few(2)
    !$acc parallel copy(few) async(1)
    call slowly()
    few(:) = 1
    !$acc end parallel
  end subroutine

  subroutine by_region(value)
    integer, intent(in) :: value
    integer :: i
    !$acc parallel loop copyout(a) async(queue)
    do i = 1, size(a, 2)
      a(:, i) = value
    end do
  end subroutine

  subroutine by_update(value)
    integer, intent(in) :: value
    !$acc kernels present(a) async(queue)
    a(:, :) = value
    !$acc end kernels
    !$acc update self(a) async(queue)
  end subroutine

  subroutine by_end_of_data(value)
    integer, intent(in) :: value
    !$acc kernels present(a) async(queue)
    a(:, :) = value
    !$acc end kernels
    !$acc exit data copyout(a) async(queue)
  end subroutine
end program
