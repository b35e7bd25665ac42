! Arrays that end with their procedure, after the data they had on the device: addresses are used again.
program main
  use check
  implicit none
  integer :: k
  do k = 1, 30
    call equal('allocatable', with_allocatable(k), 100*k)
    call equal('automatic', with_automatic(50 + k), (50 + k)*(51 + k)/2)
  end do
  call pass()
contains
  integer function with_allocatable(k) result(r)
    integer, intent(in) :: k
    integer, allocatable :: w(:), x(:)
    integer :: i
    allocate (w(100), x(50 + k))
    x = -1
    !$acc enter data create(w) copyin(x)
    !$acc parallel loop present(w)
    do i = 1, 100
      w(i) = k
    end do
    r = 0
    !$acc parallel loop present(w, x) reduction(+:r)
    do i = 1, 100
      r = r + w(i)
      if (i <= size(x)) x(i) = i
    end do
    !$acc exit data delete(w, x)
  end function
  integer function with_automatic(n) result(r)
    integer, intent(in) :: n
    integer :: w(n), i
    !$acc data create(w)
    !$acc parallel loop
    do i = 1, n
      w(i) = i
    end do
    r = 0
    !$acc parallel loop reduction(+:r)
    do i = 1, n
      r = r + w(i)
    end do
    !$acc end data
  end function
end program
