! Pointers with other bounds and another rank than their target.
program main
  use check
  implicit none
  real(8), target :: flat(24)
  real(8), pointer :: m(:, :), v(:)
  integer :: i, j
  flat = 0
  m(0:3, 1:6) => flat
  !$acc data copy(flat)
  !$acc parallel loop collapse(2) present(m)
  do j = 1, 6
    do i = 0, 3
      m(i, j) = 10*j + i
    end do
  end do
  v(-2:) => flat(5:8)
  !$acc parallel loop present(v)
  do i = -2, 1
    v(i) = -v(i)
  end do
  !$acc end data
  call equal('flat(5)', flat(5), -20d0)
  call equal('flat(24)', flat(24), 63d0)
  call equal('flat(9)', flat(9), 30d0)
  call pass()
end program
