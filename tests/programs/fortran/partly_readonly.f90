! Arrays of which some pages are read-only: copies out write the other pages, for sections too.
module protected_pages
  use iso_c_binding
  implicit none
  interface
    function c_mmap(at, length, access, flags, file, offset) bind(c, name='mmap')
      import :: c_ptr, c_size_t, c_int, c_long
      type(c_ptr), value :: at
      integer(c_size_t), value :: length
      integer(c_int), value :: access, flags, file
      integer(c_long), value :: offset
      type(c_ptr) :: c_mmap
    end function
    integer(c_int) function c_mprotect(at, length, access) bind(c, name='mprotect')
      import :: c_ptr, c_size_t, c_int
      type(c_ptr), value :: at
      integer(c_size_t), value :: length
      integer(c_int), value :: access
    end function
  end interface
  integer, parameter :: page = 4096 / 8
contains
  ! Pages of numbers, those from `first` to `last` read-only, counted from 1.
  function pages(count, first, last) result(numbers)
    integer, intent(in) :: count, first, last
    real(c_double), pointer :: numbers(:)
    type(c_ptr) :: memory
    integer :: i
    memory = c_mmap(c_null_ptr, int(count * page * 8, c_size_t), 3, 34, -1, 0_c_long)
    call c_f_pointer(memory, numbers, [count * page])
    numbers = [(real(i, c_double), i = 1, size(numbers))]
    if (c_mprotect(c_loc(numbers((first - 1) * page + 1)), int((last - first + 1) * page * 8, c_size_t), 1) /= 0) stop 2
  end function

  subroutine add_to_all(a, from, to)
    real(c_double), intent(inout) :: a(:)
    integer, intent(in) :: from, to
    integer :: i
    !$acc parallel loop copy(a)
    do i = 1, size(a)
      if (i < from .or. i > to) a(i) = a(i) + 1
    end do
  end subroutine

  subroutine add_blocks(a, n, from, to)
    integer, intent(in) :: n, from, to
    real(c_double), intent(inout) :: a(n)
    integer :: i
    !$acc kernels copy(a) async(2)
    do i = 1, n
      if (i < from .or. i > to) a(i) = a(i) + 1
    end do
    !$acc end kernels
    !$acc wait(2)
  end subroutine
end module

program main
  use check
  use protected_pages
  implicit none
  real(c_double), pointer :: a(:)
  integer :: i, k, from, to
  integer, parameter :: cases(3, 3) = reshape([4, 2, 3, 5, 5, 5, 300, 100, 120], [3, 3])
  do k = 1, 3
    a => pages(cases(1, k), cases(2, k), cases(3, k))
    from = (cases(2, k) - 1) * page + 1
    to = cases(3, k) * page
    call add_to_all(a, from, to)
    call add_blocks(a, size(a), from, to)
    !$acc enter data copyin(a)
    !$acc parallel loop present(a)
    do i = 1, size(a)
      if (i < from .or. i > to) a(i) = a(i) + 1
    end do
    !$acc update self(a(2:from + 1))
    !$acc update self(a(from + 1:)) async
    !$acc wait
    !$acc exit data copyout(a)
    do i = 1, size(a)
      if (a(i) /= merge(i, i + 3, i >= from .and. i <= to)) then
        call equal('a', a(i), real(i + 3, c_double))
      end if
    end do
  end do
  call pass()
end program
