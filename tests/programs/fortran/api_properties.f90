! acc_get_property and acc_get_property_string: numbers, and strings of every length, of the type in use and of the host (3.2.6).
program main
  use check
  implicit none
  integer :: kind, num, k
  integer(8) :: total, free
  character(1) :: one
  character(200) :: long
  character(:), allocatable :: text
  kind = acc_get_device_type()
  num = acc_get_device_num(kind)
  total = acc_get_property(num, kind, acc_property_memory)
  free = acc_get_property(num, kind, acc_property_free_memory)
  call equal('no more free than there is', free <= total, .true.)
  do k = 1, 3
    long = repeat('#', 200)
    call acc_get_property_string(num, kind, key(k), long)
    call equal('padded', index(long, '#'), 0)
    text = trim(long)
    if (len(text) > 0) then
      one = '#'
      call acc_get_property_string(num, kind, key(k), one)
      call equal('cut', one == text(1:1), .true.)
    end if
  end do
  long = '#'
  call acc_get_property_string(0, acc_device_host, acc_property_vendor, long)
  call equal('the host''s', long(1:1) == '#', .false.)
  if (separate()) call equal('there is memory', total > 0, .true.)
  call pass()
contains
  integer function key(k)
    integer, intent(in) :: k
    integer, parameter :: keys(3) = [acc_property_name, acc_property_vendor, acc_property_driver]
    key = keys(k)
  end function
end program
