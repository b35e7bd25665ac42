! declare in a module: scalars, arrays and an allocatable (2.13).
module data
  implicit none
  integer :: g(64), k = 3
  integer, allocatable :: ga(:)
  !$acc declare create(g, ga) copyin(k)
contains
  integer function scaled(i)
    !$acc routine seq
    integer, value :: i
    scaled = g(i)*k
  end function
end module

program main
  use check
  use data
  implicit none
  integer :: out(64), i, total
  !$acc parallel loop
  do i = 1, 64
    g(i) = i
  end do
  !$acc parallel loop copyout(out)
  do i = 1, 64
    out(i) = scaled(i)
  end do
  do i = 1, 64
    call equal('out(i)', out(i), 3*i)
  end do
  allocate (ga(10))
  ga = 4
  !$acc enter data copyin(ga)
  total = 0
  !$acc parallel loop present(ga) reduction(+:total)
  do i = 1, size(ga)
    total = total + ga(i)
  end do
  call equal('total', total, 40)
  !$acc exit data delete(ga)
  deallocate (ga)
  call pass()
end program
