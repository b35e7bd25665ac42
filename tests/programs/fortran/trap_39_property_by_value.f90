! acc_get_property and acc_get_property_string take their arguments by value underneath; the string is padded or cut.
program main
  use check
  implicit none
  character(200) :: name
  character(3) :: short
  character(10) :: nothing
  integer(acc_device_kind) :: device_type
  integer(int64) :: memory
  call acc_init(acc_device_default)
  device_type = acc_get_device_type()
  call acc_get_property_string(0, device_type, acc_property_name, name)
  if (len_trim(name) == 0) call failed('a name')
  if (index(name, achar(0)) /= 0) call failed('a padded name')
  call acc_get_property_string(0, device_type, acc_property_name, short)
  if (short /= name(1:3)) call failed('a cut name')
  call acc_get_property_string(0, device_type, acc_property_vendor, name)
  if (len_trim(name) == 0) call failed('a vendor')
  call acc_get_property_string(0, device_type, acc_property_memory, nothing)
  if (nothing /= '') call failed('blanks for what is no string')
  memory = acc_get_property(0, device_type, acc_property_memory)
  if (separate() .and. memory < 1000000) call failed('memory')
  call equal('number of a string property', int(acc_get_property(0, device_type, acc_property_name)), 0)
  call pass()
end program
