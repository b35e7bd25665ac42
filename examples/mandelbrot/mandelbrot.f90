! The Mandelbrot set in five steps, as in mandelbrot.c: serial, blocked, blocked-data, async, devices.
! Every step must draw the same picture, and the same as the C program.
module picture
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  integer, parameter :: max_color = 253, inside = 254, unset = 255
  integer :: width = 1920, height = 1080, num_blocks = 16, num_queues = 2, iterations = 2000
  real(real64) :: left, top, pixel_size
contains
  integer function mandelbrot(x, y, left, top, pixel_size, iterations)
    !$acc routine seq
    integer, value :: x, y, iterations
    real(real64), value :: left, top, pixel_size
    real(real64) :: cr, ci, zr, zi, rr, ii
    integer :: n
    cr = left + x * pixel_size
    ci = top - y * pixel_size
    zr = 0
    zi = 0
    mandelbrot = inside
    do n = 0, iterations - 1
      rr = zr * zr
      ii = zi * zi
      if (rr + ii > 4) then
        mandelbrot = min(n, max_color)
        return
      end if
      zi = 2 * zr * zi + ci
      zr = rr - ii + cr
    end do
  end function

  ! First row of a block, rows and blocks counted from 0.
  integer function first_row(block)
    integer, intent(in) :: block
    first_row = int(int(block, int64) * height / num_blocks)
  end function

  ! Adler-32 of the pixels.
  integer(int64) function checksum(image)
    integer, intent(in) :: image(:, :)
    integer(int64) :: a, b
    integer :: ix, iy
    a = 1
    b = 0
    do iy = 1, size(image, 2)
      do ix = 1, size(image, 1)
        a = mod(a + image(ix, iy), 65521_int64)
        b = mod(b + a, 65521_int64)
      end do
    end do
    checksum = b * 65536 + a
  end function

  ! Blue and gold outside, black inside.
  subroutine write_ppm(path, image)
    character(*), intent(in) :: path
    integer, intent(in) :: image(:, :)
    character(3), allocatable :: row(:)
    character(32) :: head
    integer :: unit, ix, iy
    real(real64) :: t, u
    allocate (row(size(image, 1)))
    open (newunit=unit, file=path, access='stream', form='unformatted', status='replace', action='write')
    write (head, '(i0,1x,i0)') size(image, 1), size(image, 2)
    write (unit) 'P6'//achar(10)//trim(head)//achar(10)//'255'//achar(10)
    do iy = 1, size(image, 2)
      do ix = 1, size(image, 1)
        t = 0
        if (image(ix, iy) < inside) t = sqrt(image(ix, iy) / 253.0_real64)
        u = 1 - t
        row(ix) = char(int(255 * 9.0_real64 * u * t * t * t))// &
                  char(int(255 * 15.0_real64 * u * u * t * t))// &
                  char(int(255 * 8.5_real64 * u * u * u * t))
      end do
      write (unit) row
    end do
    close (unit)
  end subroutine
end module

module steps
  use openacc
  use picture
  implicit none
contains
  subroutine draw_serial(image)
    integer, intent(inout) :: image(:, :)
    integer :: ix, iy
    do iy = 1, height
      do ix = 1, width
        image(ix, iy) = mandelbrot(ix - 1, iy - 1, left, top, pixel_size, iterations)
      end do
    end do
  end subroutine

  subroutine draw_blocked(image)
    integer, intent(inout), contiguous :: image(:, :)
    integer :: block, ix, iy, ystart, yend
    !$acc data create(image)
    do block = 0, num_blocks - 1
      ystart = first_row(block) + 1
      yend = first_row(block + 1)
      !$acc parallel loop
      do iy = ystart, yend
        do ix = 1, width
          image(ix, iy) = mandelbrot(ix - 1, iy - 1, left, top, pixel_size, iterations)
        end do
      end do
    end do
    !$acc update self(image)
    !$acc end data
  end subroutine

  subroutine draw_blocked_data(image)
    integer, intent(inout), contiguous :: image(:, :)
    integer :: block, ix, iy, ystart, yend
    !$acc data create(image)
    do block = 0, num_blocks - 1
      ystart = first_row(block) + 1
      yend = first_row(block + 1)
      !$acc parallel loop
      do iy = ystart, yend
        do ix = 1, width
          image(ix, iy) = mandelbrot(ix - 1, iy - 1, left, top, pixel_size, iterations)
        end do
      end do
      !$acc update self(image(:, ystart:yend))
    end do
    !$acc end data
  end subroutine

  ! Enqueues one block; the data must be on the current device.
  subroutine enqueue_block(image, block, queue)
    integer, intent(inout), contiguous :: image(:, :)
    integer, intent(in) :: block, queue
    integer :: ix, iy, ystart, yend
    ystart = first_row(block) + 1
    yend = first_row(block + 1)
    !$acc parallel loop async(queue) present(image)
    do iy = ystart, yend
      do ix = 1, width
        image(ix, iy) = mandelbrot(ix - 1, iy - 1, left, top, pixel_size, iterations)
      end do
    end do
    !$acc update self(image(:, ystart:yend)) async(queue)
  end subroutine

  subroutine draw_async(image)
    integer, intent(inout), contiguous :: image(:, :)
    integer :: block
    !$acc data create(image)
    do block = 0, num_blocks - 1
      call enqueue_block(image, block, mod(block, num_queues))
    end do
    !$acc wait
    !$acc end data
  end subroutine

  ! The chapter names acc_device_nvidia; where there is none, the default type's devices do.
  integer(acc_device_kind) function type_of_all()
    type_of_all = acc_device_nvidia
    if (acc_get_num_devices(acc_device_nvidia) == 0) type_of_all = acc_get_device_type()
  end function

  subroutine draw_devices(image, devices)
    integer, intent(inout), contiguous :: image(:, :)
    integer, intent(out) :: devices
    integer(acc_device_kind) :: device_type
    integer :: block, d
    device_type = type_of_all()
    devices = acc_get_num_devices(device_type)
    do d = 0, devices - 1
      call acc_set_device_num(d, device_type)
      !$acc enter data create(image)
    end do
    do block = 0, num_blocks - 1
      call acc_set_device_num(mod(block, devices), device_type)
      call enqueue_block(image, block, mod(block / devices, num_queues))
    end do
    do d = 0, devices - 1
      call acc_set_device_num(d, device_type)
      !$acc wait
      !$acc exit data delete(image)
    end do
    call acc_set_device_num(0, device_type)
  end subroutine

  ! Starts the devices and their queues before the clock does.
  subroutine warm_up()
    integer(acc_device_kind) :: device_type
    integer :: d, q
    device_type = type_of_all()
    do d = 0, acc_get_num_devices(device_type) - 1
      call acc_set_device_num(d, device_type)
      do q = 0, num_queues - 1
        !$acc parallel async(q)
        !$acc end parallel
      end do
      !$acc wait
    end do
    call acc_set_device_num(0, device_type)
  end subroutine
end module

program main
  use steps
  implicit none
  character(12), parameter :: names(5) = &
    [character(12) :: 'serial', 'blocked', 'blocked-data', 'async', 'devices']
  character(1024) :: step, output
  character(12) :: seconds
  integer, allocatable :: image(:, :)
  integer(int64) :: started, ended, rate, sum, first
  integer :: s, ran, devices, at
  logical :: warm, different

  step = 'all'
  output = ''
  call read_options()
  num_blocks = min(num_blocks, height)
  pixel_size = max(3.5_real64 / width, 2.5_real64 / height)
  left = -0.75_real64 - pixel_size * width / 2
  top = pixel_size * height / 2
  allocate (image(width, height))

  ran = 0
  first = 0
  warm = .false.
  different = .false.
  do s = 1, size(names)
    if (step /= 'all' .and. step /= names(s)) cycle
    if (s > 1 .and. .not. warm) then
      call warm_up()
      warm = .true.
    end if
    image = unset
    devices = 1
    call system_clock(started, rate)
    select case (s)
    case (1)
      call draw_serial(image)
      devices = 0
    case (2)
      call draw_blocked(image)
    case (3)
      call draw_blocked_data(image)
    case (4)
      call draw_async(image)
    case (5)
      call draw_devices(image, devices)
    end select
    call system_clock(ended)
    sum = checksum(image)
    write (seconds, '(f12.3)') real(ended - started, real64) / rate
    write (*, '(a,a,3(a,i0),a,a,a,z8.8)') 'step=', trim(names(s)), ' devices=', devices, &
      ' queues=', merge(num_queues, 0, s >= 4), ' blocks=', num_blocks, &
      ' seconds=', trim(adjustl(seconds)), ' checksum=', sum
    if (ran == 0) first = sum
    ran = ran + 1
    different = different .or. sum /= first
    if (output /= '') then
      at = index(output, '%s')
      if (at > 0) then
        call write_ppm(output(:at - 1)//trim(names(s))//trim(output(at + 2:)), image)
      else
        call write_ppm(trim(output), image)
      end if
    end if
  end do
  if (ran == 0) call usage()
  if (different) error stop 'mandelbrot: the steps drew different pictures'

contains
  subroutine usage()
    write (*, '(a)') 'usage: mandelbrot-fortran [--step NAME|all] [--width N] [--height N] [--blocks N] '// &
      '[--queues N] [--iterations N] [--output FILE]'
    stop 2
  end subroutine

  subroutine read_options()
    character(1024) :: option, value
    integer :: i, number, status
    i = 1
    do while (i < command_argument_count())
      call get_command_argument(i, option)
      call get_command_argument(i + 1, value)
      i = i + 2
      if (option == '--step') then
        step = value
      else if (option == '--output') then
        output = value
      else
        read (value, *, iostat=status) number
        if (status /= 0 .or. number < 1) call usage()
        select case (option)
        case ('--width')
          width = number
        case ('--height')
          height = number
        case ('--blocks')
          num_blocks = number
        case ('--queues')
          num_queues = number
        case ('--iterations')
          iterations = number
        case default
          call usage()
        end select
      end if
    end do
    if (i == command_argument_count()) call usage()
  end subroutine
end program
