! Gauss-Seidel in two colours with steps of 2 in its loops, and the change as a maximum.
program main
  use check
  implicit none
  integer, parameter :: n = 20
  real(8) :: u(0:n + 1, 0:n + 1), change, old
  integer :: i, j, colour, round
  u = 0
  u(:, 0) = 1
  !$acc data copy(u)
  do round = 1, 3000
    change = 0
    do colour = 0, 1
      !$acc parallel loop gang reduction(max:change) present(u)
      do j = 1, n
        !$acc loop vector reduction(max:change) private(old)
        do i = 1 + mod(j + colour, 2), n, 2
          old = u(i, j)
          u(i, j) = (u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1))/4
          change = max(change, abs(u(i, j) - old))
        end do
      end do
    end do
    if (change < 1d-7) exit
  end do
  !$acc end data
  call equal('it settles', round < 3000, .true.)
  do j = 1, n
    do i = 1, n
      call equal('mean', abs(u(i, j) - (u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1))/4) < 1d-6, .true.)
      call equal('symmetric', abs(u(i, j) - u(n + 1 - i, j)) < 1d-4, .true.)
    end do
  end do
  call pass()
end program
