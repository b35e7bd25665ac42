! Pointers: to arrays, to sections with a stride, to scalars, and to nothing.
program main
  use check
  implicit none
  integer, target :: t(40), u(10, 10)
  integer, pointer :: p(:), q(:, :), np(:), s
  integer, allocatable :: sc
  integer :: i
  t = 1
  u = 2
  p => t(5:20)
  !$acc parallel loop copy(p)
  do i = 1, 16
    p(i) = p(i) + i
  end do
  call equal('t(4)', t(4), 1)
  call equal('t(5)', t(5), 2)
  call equal('t(20)', t(20), 17)
  q => u(:, 3:4)
  !$acc data copy(q)
  !$acc parallel loop present(q)
  do i = 1, 10
    q(i, 2) = i
  end do
  !$acc end data
  call equal('u(7, 4)', u(7, 4), 7)
  np => null()
  !$acc enter data copyin(np)
  !$acc exit data delete(np)
  allocate (s)
  s = 5
  !$acc parallel copy(s)
  s = s + 1
  !$acc end parallel
  call equal('s', s, 6)
  allocate (sc)
  sc = 7
  !$acc parallel copy(sc)
  sc = sc + 1
  !$acc end parallel
  call equal('sc', sc, 8)
  p => t(1:39:2)
  !$acc parallel loop copy(p)
  do i = 1, 20
    p(i) = 100 + i
  end do
  call equal('t(3)', t(3), 102)
  call equal('t(39)', t(39), 120)
  call pass()
end program
