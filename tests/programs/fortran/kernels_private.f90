! kernels: what a loop directive makes private is not the source's variable, which keeps its value (2.9.10); other scalars have their last one.
program kernels_private
  use check
  implicit none
  real(8) :: from(10), to(10), seen(2), rows(5, 4), table(4), x, y
  integer :: i, j, k
  from = [(i, i = 1, 10)]
  to = 0
  table = [1, 2, 3, 4]
  call clauses()
  call arrays(table)
  call loops_around_and_inside(x)
  call mapped()
  call pass()
contains
  subroutine clauses()
    x = 5
    i = 77
    !$acc kernels copyin(from) copyout(to, seen)
    !$acc loop independent private(X)
    do i = 1, 10
      x = from(i)*2
      to(i) = x
    end do
    seen(1) = x
    seen(2) = i
    !$acc end kernels
    call equal("x", x, 5d0)
    call equal("i", i, 77)
    call equal("seen(1)", seen(1), 5d0)
    call equal("seen(2)", seen(2), 77d0)
    call equal("to(10)", to(10), 20d0)
    y = 6
    !$acc kernels loop private(x) copyin(from) copyout(to)
    do i = 1, 10
      x = from(i)*3
      y = x + 1
      to(i) = y
    end do
    call equal("x", x, 5d0)
    call equal("y", y, 31d0)
    call equal("i", i, 77)
    call equal("to(10)", to(10), 31d0)
    !$acc kernels copyin(from) copy(to) async(1)
    !$acc loop independent private(x)
    do i = 1, 10
      if (from(i) > 3) then
        x = from(i)*2
        to(i) = x
      end if
    end do
    !$acc end kernels
    !$acc wait(1)
    call equal("x", x, 5d0)
    call equal("to(1) + to(10)", to(1) + to(10), 24d0)
    ! Without a directive the loop's variable has its last value.
    !$acc kernels copyin(from) copyout(to)
    do i = 1, 10
      to(i) = from(i)
    end do
    !$acc end kernels
    call equal("i", i, 11)
  end subroutine

  subroutine arrays(own)
    real(8), intent(inout) :: own(4)
    i = 77
    !$acc kernels copyin(from) copyout(to)
    !$acc loop independent private(own)
    do i = 1, 10
      do k = 1, 4
        own(k) = from(i)*k
      end do
      to(i) = own(1) + own(2) + own(3) + own(4)
    end do
    !$acc end kernels
    call equal("own(1) + own(4)", own(1) + own(4), 5d0)
    call equal("to(10)", to(10), 100d0)
    call equal("i", i, 77)
  end subroutine

  subroutine loops_around_and_inside(x)
    real(8), intent(out) :: x
    x = 5
    i = 77
    j = 88
    !$acc kernels copyout(rows)
    !$acc loop independent collapse(2) private(x)
    do i = 1, 4
      do j = 1, 5
        x = i*j
        rows(j, i) = x
      end do
    end do
    !$acc end kernels
    call equal("x, i, j", x*10000 + i*100 + j, 57788d0)
    call equal("rows(5, 4)", rows(5, 4), 20d0)
    !$acc kernels copyin(from) copyout(to)
    !$acc loop independent private(y)
    do i = 1, 10
      y = 0
      x = 3
      !$acc loop private(x) reduction(+:y)
      do j = 1, 10
        x = from(j)*from(i)
        y = y + x
      end do
      to(i) = x + y
    end do
    !$acc end kernels
    call equal("x, i, j", x*10000 + i*100 + j, 37788d0)
    call equal("to(10)", to(10), 553d0)
    x = 5
    !$acc kernels copyin(from) copy(to)
    !$acc loop seq private(x)
    do j = 0, 2
      x = j*2
      if (x > 1) then
        x = x + 1
        !$acc loop independent private(x)
        do i = 1, 10
          x = from(i) + j
          to(i) = to(i) + x
        end do
      end if
      !$acc loop independent
      do i = 1, 10
        to(i) = to(i) + x
      end do
    end do
    x = x + 2
    !$acc loop seq
    do j = 9, 3
      to(j) = 0
    end do
    !$acc end kernels
    call equal("x, i, j", x*10000 + i*100 + j, 77788d0)
    call equal("to(10)", to(10), 584d0)
    x = 5
    !$acc kernels copyin(from) copy(to)
    !$acc loop independent private(y)
    do i = 1, 10
      y = from(i)
      !$acc loop seq private(y)
      do j = 1, 3
        y = j
        if (y > 2) to(i) = y
      end do
      to(i) = to(i) + y
    end do
    !$acc loop private(x)
    do i = 2, 10
      x = to(i - 1) + 1
      to(i) = x
    end do
    !$acc end kernels
    call equal("x, i, j", x*10000 + i*100 + j, 57788d0)
    call equal("to(10)", to(10), 13d0)
    !$acc kernels copy(to)
    do i = 2, 10
      to(i) = to(i - 1) + 1
    end do
    !$acc loop seq
    do i = 1, 3
      !$acc loop independent
      do j = 1, 10
        to(j) = to(j) + i
      end do
    end do
    !$acc end kernels
    call equal("i, j", i*100 + j, 1188)
    call equal("to(10) - to(1)", to(10) - to(1), 9d0)
    call equal("to(1)", to(1), 10d0)
  end subroutine

  subroutine mapped()
    x = 5
    i = 77
    !$acc data copy(x)
    !$acc kernels loop independent private(x) copyin(from) copyout(to)
    do i = 1, 10
      x = from(i)*2
      to(i) = x
    end do
    !$acc end data
    call equal("x", x, 5d0)
    call equal("to(10)", to(10), 20d0)
    !$acc kernels copyin(from) copyout(to) copy(x)
    !$acc loop independent private(x)
    do i = 1, 10
      x = from(i)*3
      to(i) = x
    end do
    x = x + 1
    !$acc end kernels
    call equal("x", x, 6d0)
    call equal("to(10)", to(10), 30d0)
    call equal("i", i, 77)
  end subroutine
end program
