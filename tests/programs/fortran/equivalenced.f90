! Storage that has two names: present by one, used by the other.
program main
  use check
  implicit none
  integer :: a(40), b(10), i
  real(8) :: r(4)
  integer(8) :: bits(4)
  equivalence (a(11), b(1)), (r, bits)
  a = [(i, i = 1, 40)]
  !$acc data copy(a)
  !$acc parallel loop present(b)
  do i = 1, 10
    b(i) = b(i)*100
  end do
  !$acc update self(b)
  call equal('a(11)', a(11), 1100)
  !$acc end data
  call equal('b(10)', b(10), 2000)
  call equal('a(21)', a(21), 21)
  r = 1
  !$acc parallel loop copy(r)
  do i = 1, 4
    r(i) = r(i)*2
  end do
  call equal('bits', bits(2), transfer(2d0, 0_8))
  call pass()
end program
