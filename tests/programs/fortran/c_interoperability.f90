! Memory and types of C in Fortran: c_f_pointer, c_loc, bind(c) types and common memory from malloc.
module c_side
  use iso_c_binding
  implicit none
  type, bind(c) :: record
    integer(c_int) :: id
    real(c_double) :: weight
    character(kind=c_char) :: mark(4)
  end type
  interface
    function malloc(bytes) bind(c) result(p)
      import :: c_size_t, c_ptr
      integer(c_size_t), value :: bytes
      type(c_ptr) :: p
    end function
    subroutine free(p) bind(c)
      import :: c_ptr
      type(c_ptr), value :: p
    end subroutine
  end interface
end module
program main
  use check
  use c_side
  implicit none
  type(c_ptr) :: memory
  real(c_double), pointer :: x(:, :)
  type(record), target :: records(6)
  type(record), pointer :: again(:)
  integer :: i, j
  memory = malloc(8_c_size_t*20)
  call c_f_pointer(memory, x, [4, 5])
  !$acc enter data create(x)
  !$acc parallel loop collapse(2) present(x)
  do j = 1, 5
    do i = 1, 4
      x(i, j) = 10*i + j
    end do
  end do
  !$acc exit data copyout(x)
  call equal('x', x(4, 5), 45d0)
  call equal('sum', sum(x), 10*10*5 + 15*4d0)
  nullify (x)
  call free(memory)
  do i = 1, 6
    records(i) = record(i, 0.5d0*i, ['a', 'b', 'c', 'd'])
  end do
  call c_f_pointer(c_loc(records), again, [6])
  !$acc data copy(records)
  !$acc parallel loop present(again)
  do i = 1, 6
    again(i)%weight = again(i)%weight + again(i)%id
    if (again(i)%mark(2) == 'b') again(i)%mark(1) = achar(iachar('A') + i)
  end do
  !$acc end data
  call equal('weight', records(6)%weight, 9d0)
  call equal('mark', records(3)%mark(1) == 'D', .true.)
  call pass()
end program
