! Vector subscripts: gather and scatter in regions, by loops and by array expressions, and an actual argument that is a packed
! temporary because of one.
program main
  use check
  implicit none
  integer, parameter :: n = 24
  integer :: index(n), back(n), a(n), b(n), c(n, 3), i, j
  do i = 1, n
    index(i) = mod(7*i, n) + 1
    a(i) = 100*i
  end do
  !$acc data copyin(a, index) copyout(b, back, c)
  !$acc parallel loop
  do i = 1, n
    back(index(i)) = i
  end do
  !$acc kernels
  b = a(index)
  c(:, 1) = a
  c(index, 2) = a
  c(back, 3) = b(back)
  !$acc end kernels
  !$acc end data
  do i = 1, n
    call equal('back', index(back(i)), i)
    call equal('gathered', b(i), 100*index(i))
    call equal('scattered', c(index(i), 2), 100*i)
    call equal('both', c(back(i), 3), 100*i)
  end do
  call double_(a(index(1:5)), 5)
  call equal('a temporary is not the array', a(index(1)), 100*index(1))
  call double_(c([1, 3, 5], 1), 3)
  b = 0
  do j = 1, 3
    !$acc parallel loop copy(b) copyin(c, index)
    do i = 1, n
      !$acc atomic update
      b(mod(index(i), 4) + 1) = b(mod(index(i), 4) + 1) + c(index(i), j)
    end do
  end do
  call equal('sums', sum(b), 3*100*n*(n + 1)/2)
  call equal('nothing beyond', sum(b(5:)), 0)
  call pass()
contains
  subroutine double_(x, m)
    integer, intent(in) :: m
    integer, intent(in) :: x(m)
    integer :: i, total
    total = 0
    !$acc parallel loop copyin(x) reduction(+:total)
    do i = 1, m
      total = total + x(i)
    end do
    call equal('the sum of what was handed over', total, sum(x))
  end subroutine
end program
