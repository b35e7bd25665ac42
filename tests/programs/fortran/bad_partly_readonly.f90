! A region changes pages of an array that are read-only in the program: an error that names the array and says where.
! EXPECT device-memory
! EXPECT exit=1
! EXPECT stderr=/parallel \(bad_partly_readonly\.f90:31, MAIN__\): numbers \(.*\) is changed by a region, also in pages that are read-only in the program.*of which 4096 at .*\(byte 819[0-9]\).*acc_error_invalid_argument/
program main
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
  real(c_double), pointer :: numbers(:)
  type(c_ptr) :: memory
  integer :: i
  memory = c_mmap(c_null_ptr, 16384_c_size_t, 3, 34, -1, 0_c_long)
  call c_f_pointer(memory, numbers, [2048])
  numbers = 1
  if (c_mprotect(c_loc(numbers(1025)), 4096_c_size_t, 1) /= 0) stop 2
  !$acc parallel loop copy(numbers)
  do i = 1, size(numbers)
    numbers(i) = 2 * numbers(i)
  end do
  write (*, '(a)') 'FAIL the change is lost'
end program
