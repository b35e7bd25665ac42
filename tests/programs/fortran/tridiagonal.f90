! Many small systems at once: each is solved by one thread, with arrays of its own and loops that depend on each other.
program main
  use check
  implicit none
  integer, parameter :: n = 20, systems = 30
  real(8) :: d(n, systems), x(n, systems), c(n), g(n), m
  integer :: i, s
  do s = 1, systems
    do i = 1, n
      d(i, s) = merge(3d0, 2d0, i == 1 .or. i == n)*s
    end do
  end do
  !$acc parallel loop copyin(d) copyout(x) private(c, g, m)
  do s = 1, systems
    c(1) = -1/4d0
    g(1) = d(1, s)/4
    !$acc loop seq
    do i = 2, n
      m = 4 + c(i - 1)
      c(i) = -1/m
      g(i) = (d(i, s) + g(i - 1))/m
    end do
    x(n, s) = g(n)
    !$acc loop seq
    do i = n - 1, 1, -1
      x(i, s) = g(i) - c(i)*x(i + 1, s)
    end do
  end do
  do s = 1, systems
    do i = 1, n
      call equal('x', abs(x(i, s) - s) < 1d-12*s, .true.)
    end do
  end do
  call pass()
end program
