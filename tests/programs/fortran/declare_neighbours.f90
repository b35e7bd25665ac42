! Declare variables of modules whose pages meet: arrays with and without values, scalars between, several modules (2.13).
module grid
  implicit none
  real(8) :: u(1501), v(1501)
  integer :: n = 1501
  real :: w(33, 77) = 1.5
  !$acc declare create(u, v) copyin(n, w)
end module

module other
  implicit none
  integer(1) :: tags(5001)
  character(len=7) :: names(1200) = 'abcdefg'
  complex(8) :: z(900)
  !$acc declare create(tags, z) copyin(names)
end module

program main
  use check
  use openacc
  use grid
  use other
  implicit none
  integer :: i, j
  !$acc parallel loop
  do i = 1, 1501
    u(i) = i
    v(i) = n - i
  end do
  !$acc parallel loop collapse(2)
  do j = 1, 77
    do i = 1, 33
      w(i, j) = w(i, j) + j
    end do
  end do
  !$acc parallel loop
  do i = 1, 5001
    tags(i) = int(mod(i, 100), 1)
  end do
  !$acc parallel loop
  do i = 1, 900
    z(i) = cmplx(i, -i, 8)
  end do
  call acc_update_self(u)
  call acc_update_self(v, 8*1501)
  !$acc update self(w(:, 1:77))
  !$acc update self(tags(1:5001), z(1:900))
  !$acc update self(names(1:1200))
  do i = 1, 1501
    call equal('u(i)', int(u(i)), i)
    call equal('v(i)', int(v(i)), 1501 - i)
  end do
  do j = 1, 77
    call equal('w(33,j)', int(2*w(33, j)), 3 + 2*j)
  end do
  do i = 1, 5001
    call equal('tags(i)', int(tags(i)), mod(i, 100))
  end do
  do i = 1, 900
    call equal('z(i)', int(real(z(i)) - aimag(z(i))), 2*i)
  end do
  call equal('names', count(names /= 'abcdefg'), 0)
  call pass()
end program
