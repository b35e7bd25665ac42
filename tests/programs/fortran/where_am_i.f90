! acc_on_device in regions, in routines and on the host: as constants and at run time.
module places
  use openacc
  implicit none
contains
  logical function on_host()
    !$acc routine seq
    on_host = acc_on_device(acc_device_host)
  end function
  logical function away()
    !$acc routine seq
    away = acc_on_device(acc_device_not_host)
  end function
end module
program main
  use check
  use places
  implicit none
  logical :: here, there, in_region(4)
  here = on_host()
  there = away()
  call equal('the program', here .and. .not. there, .true.)
  !$acc parallel copyout(in_region) num_gangs(1)
  in_region(1) = acc_on_device(acc_device_host)
  in_region(2) = acc_on_device(acc_device_not_host)
  in_region(3) = on_host()
  in_region(4) = away()
  !$acc end parallel
  call equal('either', in_region(1) .neqv. in_region(2), .true.)
  call equal('a routine says the same', (in_region(1) .eqv. in_region(3)) .and. (in_region(2) .eqv. in_region(4)), .true.)
  call pass()
end program
