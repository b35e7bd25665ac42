! An array that is deallocated and allocated again with other bounds: the device must see the new descriptor.
module data
  implicit none
  integer, allocatable :: g(:)
  !$acc declare create(g)
contains
  integer function size_on_device()
    !$acc parallel copyout(size_on_device)
    size_on_device = size(g)
    !$acc end parallel
  end function
end module

program main
  use check
  use data
  implicit none
  integer, allocatable :: a(:)
  integer :: i, n, total
  do n = 10, 40, 10
    allocate (a(n:2*n - 1), g(n))
    a = n
    g = n
    !$acc enter data copyin(a, g)
    total = 0
    !$acc parallel loop present(a, g) reduction(+:total)
    do i = n, 2*n - 1
      total = total + a(i) + g(i - n + 1) + lbound(a, 1)
    end do
    call equal('total', total, 3*n*n)
    call equal('size on the device', size_on_device(), n)
    !$acc exit data delete(a, g)
    deallocate (a, g)
  end do
  ! The same descriptor, the data in another place, while other data stays.
  allocate (a(5))
  a = 1
  !$acc data copy(a)
  !$acc parallel loop present(a)
  do i = 1, 5
    a(i) = a(i) + 1
  end do
  !$acc end data
  deallocate (a)
  allocate (a(1000))
  a = 3
  !$acc parallel loop copy(a)
  do i = 1, 1000
    a(i) = a(i) + size(a)
  end do
  do i = 1, 1000
    call equal('a(i)', a(i), 1003)
  end do
  call pass()
end program
